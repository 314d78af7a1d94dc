"""Export of fitted models to ONNX, for scoring with onnxruntime."""

from partialfair.onnx.export import to_onnx

__all__ = ["to_onnx"]
