"""To be removed."""

from twofold.embedded.api.direct import FixedFormula as FixedFormula
from twofold.embedded.api.direct import FixedProduct as FixedProduct
from twofold.embedded.api.direct import FixedSum as FixedSum
from twofold.embedded.api.direct import fixed_formula as fixed_formula
from twofold.embedded.client.queries import to_edge_expression as to_edge_expression
