package crdt

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// StreamID names a stream: one (replica base URL, data-parallel rank), written
// "http://10.0.0.1:8000#0".
type StreamID string

// NewStreamID joins a replica's base URL (without trailing slash) and rank.
func NewStreamID(url string, rank int) StreamID {
	return StreamID(strings.TrimRight(url, "/") + "#" + strconv.Itoa(rank))
}

// PeerID is 128 random bits, drawn once per process start.
type PeerID [16]byte

// String is the id's 32 hex digits.
func (p PeerID) String() string { return hex.EncodeToString(p[:]) }

// Less orders ids bytewise.
func (p PeerID) Less(o PeerID) bool { return string(p[:]) < string(o[:]) }
