"""Learning-rate schedules: a file each, as a factor on the peak.

rate.py: Rate, Constant, Plan (warm-up); linear.py, cosine.py, wsd.py, uba.py, refined.py; read.py: by written form.
quadratic.py, logistic.py: what they leave of a loss at the end of a budget, for `poise claim uba` and `refined_rates`.
"""

from poise.runtime.learning_rates.cosine import Cosine
from poise.runtime.learning_rates.linear import Linear
from poise.runtime.learning_rates.rate import Constant, Plan, Rate
from poise.runtime.learning_rates.refined import Refined, refined
from poise.runtime.learning_rates.uba import Uba
from poise.runtime.learning_rates.wsd import Wsd

__all__ = ["Constant", "Cosine", "Linear", "Plan", "Rate", "Refined", "Uba", "Wsd", "refined"]
