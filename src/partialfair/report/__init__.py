"""The HTML report: one file to read offline; internal: results write it with `to_html`."""
