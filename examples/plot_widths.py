"""
How wide may ranges be?
=======================
"""

import matplotlib.pyplot as plt

plt.plot([1, 2, 3])
