"""What a model's tokens cost by the list that comes with genai-prices; nothing is fetched, and no price is guessed."""

from __future__ import annotations

import math

from swarmd.core.wire import Usage


def price(model: str, usage: Usage) -> float | None:
    """US dollars for this usage, or None: the list does not have the model, or tokens in or out are not known. Cache
    tokens that were not told count as none.

    The list is as old as the package that is installed. It is loaded at the first call: 0.2 seconds and 20 MB.
    """
    if not model or usage.tokens_in is None or usage.tokens_out is None:
        return None
    import genai_prices

    read, written = usage.cache_read or 0, usage.cache_write or 0
    try:
        # There, input is all that goes in; here, what neither came from the cache nor went into it.
        tokens = genai_prices.Usage(
            input_tokens=usage.tokens_in + read + written, cache_read_tokens=read, cache_write_tokens=written,
            output_tokens=usage.tokens_out,
        )  # fmt: skip
        found = float(genai_prices.calc_price(tokens, model).total_price)
    except (LookupError, ValueError, ArithmeticError):
        return None
    return round(found, 9) if math.isfinite(found) and found >= 0 else None
