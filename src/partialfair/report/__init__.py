"""The HTML report: one interactive file that opens offline."""

from partialfair.report.page_data import collect_changes
from partialfair.report.pages import audit_page, path_page, write_page

__all__ = ["audit_page", "collect_changes", "path_page", "write_page"]
