"""A certificate as one web page."""

from ncp_control.audit.page.write import write_certificate

__all__ = ["write_certificate"]
