"""Slow, obvious NumPy twins of every C kernel, and the cases they are compared on.

What "equal" means, by class of kernel:

==== ========================================= ======================================
E0   grid, orders, uint8 resize                bit-identical to the twin here
E1   normalise (float32, no fused multiply-add) bit-identical to NumPy's float32 steps
E2   posterior, fusion, closed-form statistics rtol 1e-12
==== ========================================= ======================================
"""

from __future__ import annotations

# ---------------------------------------------------------------- grid

# ---------------------------------------------------------------- posterior

# ---------------------------------------------------------------- statistics

# ---------------------------------------------------------------- frames
