"""An address as a QR code, for the phones of a class; made here, and nothing is fetched for it."""

import segno


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
    return code.svg_inline(border=4, light="#fff", omitsize=True)
