"""Fitted models as ONNX: files that run in onnxruntime, without Python or with."""

from partialfair.onnx.export import to_onnx

__all__ = ["to_onnx"]
