package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frame flags (ZMTP 3.1, section 2.3).
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
	flagsKnown  = flagMore | flagLong | flagCommand
)

// Faults of a peer. Each ends its connection.
var (
	errFlags    = errors.New("reserved bits set in frame flags")
	errCommand  = errors.New("malformed command")
	errTooLong  = errors.New("message longer than the limit")
	errTooMany  = errors.New("more frames in a message than the limit")
	errMetadata = errors.New("malformed metadata")
)

// item is one thing read from a connection: a command, or a whole message.
type item struct {
	command string // name; empty for a message
	body    []byte // command only, after the name; valid until the next item
	frames  [][]byte
	held    Held // what the message takes of the room
}

// decoder cuts a byte stream into items. It owns nothing but its scratch.
type decoder struct {
	r        *bufio.Reader
	maxBytes int
	room     func(bytes int64) (Held, error) // waits for room for a message; nil: there is always some

	held    Held   // what the message in progress takes of the room
	parts   []int  // end offsets in data of the frames read so far
	data    []byte // frames of the message in progress
	command []byte
}

// next reads one item. Frames are fresh memory, owned by the caller. A command
// may come between the frames of a message (libzmq's PING can).
func (d *decoder) next() (item, error) {
	for {
		flags, size, err := d.header()
		if err != nil {
			return item{}, err
		}
		if flags&flagCommand != 0 {
			return d.readCommand(flags, size)
		}
		if len(d.parts) == maxParts {
			return item{}, errTooMany
		}
		if size > uint64(d.maxBytes-len(d.data)) {
			return item{}, fmt.Errorf("%w: %d bytes claimed", errTooLong, size)
		}
		if whole := len(d.data) + int(size); whole > smallBytes {
			if flags&flagMore != 0 {
				whole = d.maxBytes
			}
			if err := d.takeRoom(whole); err != nil {
				return item{}, err
			}
		}
		if err := d.readBody(int(size)); err != nil {
			return item{}, err
		}
		d.parts = append(d.parts, len(d.data))
		if flags&flagMore == 0 {
			if err := d.takeRoom(len(d.data)); err != nil {
				return item{}, err
			}
			return d.take(), nil
		}
	}
}

// takeRoom waits for room for the message in progress, once a message: who holds
// some never waits for more. A long message takes it before it is read, a short
// one when it is whole, so that its sender cannot keep it by being slow.
func (d *decoder) takeRoom(bytes int) error {
	if d.room == nil || d.held.bytes > 0 {
		return nil
	}
	var err error
	d.held, err = d.room(int64(bytes + messageOverhead))
	return err
}

// header reads flags and size of one frame.
func (d *decoder) header() (flags byte, size uint64, err error) {
	flags, err = d.r.ReadByte()
	if err != nil {
		return 0, 0, err
	}
	if flags&^flagsKnown != 0 {
		return 0, 0, fmt.Errorf("%w: %#x", errFlags, flags)
	}
	if flags&flagLong == 0 {
		b, err := d.r.ReadByte()
		return flags, uint64(b), noEOF(err)
	}
	var b [8]byte
	if _, err := io.ReadFull(d.r, b[:]); err != nil {
		return 0, 0, noEOF(err)
	}
	return flags, binary.BigEndian.Uint64(b[:]), nil
}

// readBody appends size bytes to data, growing as they arrive (I1).
func (d *decoder) readBody(size int) error {
	for size > 0 {
		step := min(size, max(readBufferBytes, len(d.data)))
		at := len(d.data)
		d.data = append(d.data, make([]byte, step)...)
		if _, err := io.ReadFull(d.r, d.data[at:]); err != nil {
			return noEOF(err)
		}
		size -= step
	}
	return nil
}

// take turns the scratch into a message of its own and empties it.
func (d *decoder) take() item {
	data := d.data
	if cap(data) > retainedBytes {
		d.data = nil
	} else {
		data = append(make([]byte, 0, len(data)), data...)
		d.data = d.data[:0]
	}
	frames := make([][]byte, len(d.parts))
	from := 0
	for i, to := range d.parts {
		frames[i] = data[from:to:to]
		from = to
	}
	it := item{frames: frames, held: d.held}
	d.parts, d.held = d.parts[:0], Held{}
	return it
}

// readCommand reads a command frame's body and splits off its name.
func (d *decoder) readCommand(flags byte, size uint64) (item, error) {
	if flags&flagMore != 0 || size > maxCommandBytes || size == 0 {
		return item{}, fmt.Errorf("%w: flags %#x, %d bytes", errCommand, flags, size)
	}
	if cap(d.command) < int(size) {
		d.command = make([]byte, size)
	}
	b := d.command[:size]
	if _, err := io.ReadFull(d.r, b); err != nil {
		return item{}, noEOF(err)
	}
	n := int(b[0])
	if n == 0 || n > len(b)-1 {
		return item{}, fmt.Errorf("%w: name of %d bytes", errCommand, n)
	}
	return item{command: string(b[1 : 1+n]), body: b[1+n:]}, nil
}

// noEOF names an end inside a frame what it is.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame appends one frame in wire form.
func appendFrame(dst []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		dst = append(dst, flags|flagLong)
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
	} else {
		dst = append(dst, flags, byte(len(body)))
	}
	return append(dst, body...)
}

// appendMessage appends a whole message in wire form. A message of no frames
// is one empty frame: the protocol knows no empty message.
func appendMessage(dst []byte, frames [][]byte) []byte {
	for i, f := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = flagMore
		}
		dst = appendFrame(dst, flags, f)
	}
	if len(frames) == 0 {
		dst = appendFrame(dst, 0, nil)
	}
	return dst
}

// appendCommand appends a command frame.
func appendCommand(dst []byte, name string, body []byte) []byte {
	b := make([]byte, 0, 1+len(name)+len(body))
	b = append(b, byte(len(name)))
	b = append(b, name...)
	b = append(b, body...)
	return appendFrame(dst, flagCommand, b)
}

// messageSize is the wire size of a message.
func messageSize(frames [][]byte) int {
	n := 2
	for _, f := range frames {
		n += 9 + len(f)
	}
	return n
}
