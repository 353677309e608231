"""An address as a QR code, for the phones of a class; made here, and nothing is fetched for it."""

import html
from base64 import b64encode
from io import BytesIO

import segno
import streamlit as st


def show_qr(address: str) -> None:
    """Draw the code, as large as the page has room for: it is read from the back row.

    Raises:
        ValueError: as `qr_svg`.
    """
    source = b64encode(qr_svg(address).encode()).decode()
    st.html(
        f'<img class="qr" src="data:image/svg+xml;base64,{source}" '
        f'alt="QR code of {html.escape(address)}">'
    )


def qr_svg(address: str) -> str:
    """The code as an SVG that fills the width it is given, black on white in every theme.

    Raises:
        ValueError: the address is longer than a code can hold.
    """
    try:
        code = segno.make(address, micro=False)
    except segno.DataOverflowError:
        raise ValueError(
            f"an address of {len(address):,} characters does not fit into a QR code"
        ) from None
    svg = BytesIO()
    code.save(svg, kind="svg", xmldecl=False, border=4, light="#fff", omitsize=True)
    return svg.getvalue().decode()
