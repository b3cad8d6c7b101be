package gossip

// Frame builds an envelope, for tests that play a hostile peer.
func Frame(version, k uint8, number uint64, payload []byte) []byte {
	return encodeFrame(version, kind(k), number, payload)
}

// Kinds is the number of frame kinds, 0 included.
const Kinds = int(kinds)

// SentFrames is the number of frames sent on a connection.
func (c *Core) SentFrames(id Conn) uint64 { return c.conns[id].sent }

// Describe puts the first frame of a connection into words.
func Describe(data []byte) string { return new(Describer).Describe(data) }

// ClockOff is how far this peer's wall clock is ahead of the median of the live
// peers', ms (negative: behind), while it is off by so much that nothing is
// predicted here; else 0.
func (c *Core) ClockOff() int64 { return c.clock.clockOff }

// Payload is the kind and the payload of a frame.
func Payload(data []byte) (k byte, payload []byte) {
	f, _ := decodeFrame(data)
	return byte(f.kind), f.payload
}
