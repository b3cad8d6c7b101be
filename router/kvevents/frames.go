package kvevents

import (
	"encoding/binary"
	"errors"
)

// endOfReplay is the sequence number of the end marker.
const endOfReplay = 1<<64 - 1

// maxSeq is the highest wire sequence number taken seriously: a fact's meta
// holds 40 bits of slot number.
const maxSeq = 1<<40 - 2

// errFrames says that a message is not one of the protocol's.
var errFrames = errors.New("not a KV event message")

// Frame is one message of the live or replay protocol, its payload still
// encoded.
type Frame struct {
	Topic   []byte
	Seq     uint64 // on the wire: 0 is the first batch
	End     bool   // end of a replay
	Payload []byte
}

// ParseLive splits a live message: topic, 8-byte sequence, payload.
func ParseLive(frames [][]byte) (Frame, error) {
	if len(frames) != 3 || len(frames[1]) != 8 {
		return Frame{}, errFrames
	}
	f := Frame{Topic: frames[0], Seq: binary.BigEndian.Uint64(frames[1]), Payload: frames[2]}
	if f.Seq > maxSeq {
		return Frame{}, errFrames
	}
	return f, nil
}

// ParseReplay splits a replay message as a DEALER sees it, in both layouts:
// delimiter, [topic,] sequence, payload; sequence all ones ends the replay.
func ParseReplay(frames [][]byte) (Frame, error) {
	if len(frames) < 3 || len(frames) > 4 || len(frames[0]) != 0 {
		return Frame{}, errFrames
	}
	var f Frame
	frames = frames[1:]
	if len(frames) == 3 {
		f.Topic, frames = frames[0], frames[1:]
	}
	if len(frames[0]) != 8 {
		return Frame{}, errFrames
	}
	f.Seq, f.Payload = binary.BigEndian.Uint64(frames[0]), frames[1]
	f.End = f.Seq == endOfReplay
	if !f.End && f.Seq > maxSeq {
		return Frame{}, errFrames
	}
	return f, nil
}

// ReplayRequest is what a DEALER sends to ask for all batches from a wire
// sequence number on.
func ReplayRequest(from uint64) [][]byte {
	return [][]byte{nil, binary.BigEndian.AppendUint64(nil, from)}
}

// ParseReplayRequest reads a request as a ROUTER sees it, identity stripped.
func ParseReplayRequest(frames [][]byte) (from uint64, err error) {
	if len(frames) != 2 || len(frames[0]) != 0 || len(frames[1]) != 8 {
		return 0, errFrames
	}
	return binary.BigEndian.Uint64(frames[1]), nil
}
