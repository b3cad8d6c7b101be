package radix

// Key is a block key: the 64-bit chained hash that names a whole prefix up to
// and including one grid block. K0 = Root(namespace), Ki = Chain(Ki-1, ti).
type Key uint64

// TokenHash is the keyed hash of the tokens of one grid block alone.
type TokenHash uint64
