package openai

import "bytes"

// MaxEvent is the default bound of one server-sent event, in bytes. A chunk
// with twenty log probabilities is about 4 KiB.
const MaxEvent = 1 << 20

// keptBytes is the largest buffer that a Scanner keeps from one event to the next.
const keptBytes = 64 << 10

// Event is one server-sent event, or a piece of the stream that is none.
type Event struct {
	// Raw is what was fed, line ends and the empty line included. Valid only
	// during the call.
	Raw []byte
	// Data is the payload of the data lines, joined by line feeds; nil for
	// comments, for events without data, and for pieces of an event longer
	// than the limit or cut off by the end of the stream.
	Data []byte
}

// Scanner cuts a stream of server-sent events as it arrives. The zero value
// is ready, with the limit MaxEvent. Lines may end in LF, CR LF or CR.
type Scanner struct {
	// Limit bounds the bytes of one event; longer ones pass in pieces without
	// Data and are counted in Oversize.
	Limit    int
	Oversize int

	held   []byte // the unfinished event
	long   bool   // inside an event over the limit
	inLine bool   // the current line has bytes
	cr     bool   // the last byte was a CR: its LF may follow
	ending bool   // that CR ended an empty line
	data   []byte // scratch for events of several data lines
}

// Feed consumes p and calls emit for each event that it completes, in order.
// The Raw bytes of all calls, joined, are the bytes fed (I4). O(len(p)).
func (s *Scanner) Feed(p []byte, emit func(Event)) {
	for len(p) > 0 {
		n, whole := s.scan(p)
		if !whole {
			s.hold(p, emit)
			return
		}
		raw := p[:n]
		if len(s.held) > 0 {
			s.held = append(s.held, raw...)
			raw = s.held
		}
		s.finish(raw, emit)
		p = p[n:]
	}
}

// Idle reports whether the stream stands between two events.
func (s *Scanner) Idle() bool {
	return len(s.held) == 0 && !s.long || s.ending
}

// EndsUnclosed reports whether what is held is the event that ends a stream,
// without the empty line after it.
func (s *Scanner) EndsUnclosed() bool {
	return string(bytes.TrimSpace(s.held)) == "data: [DONE]"
}

// Flush ends the stream. What is held is emitted as a piece without Data: an
// event without its empty line is none.
func (s *Scanner) Flush(emit func(Event)) {
	switch {
	case s.ending:
		s.finish(s.held, emit)
	case len(s.held) > 0:
		emit(Event{Raw: s.held})
	}
	*s = Scanner{Limit: s.Limit, Oversize: s.Oversize, held: s.held[:0], data: s.data}
}

// scan returns how many bytes of p belong to the current event, and whether
// its empty line is complete. A CR waits for the byte after it.
func (s *Scanner) scan(p []byte) (n int, whole bool) {
	for i := 0; i < len(p); {
		if s.cr {
			s.cr = false
			if p[i] == '\n' {
				i++
			}
			if s.ending {
				s.ending = false
				return i, true
			}
			continue
		}
		j := lineBreak(p[i:])
		if j != 0 {
			s.inLine = true
		}
		if j < 0 {
			break
		}
		empty := !s.inLine
		s.inLine = false
		i += j + 1
		switch {
		case p[i-1] == '\r':
			s.cr, s.ending = true, empty
		case empty:
			return i, true
		}
	}
	return len(p), false
}

// lineBreak is the index of the first LF or CR, -1 if there is none.
func lineBreak(p []byte) int {
	i := bytes.IndexByte(p, '\n')
	if i >= 0 {
		p = p[:i]
	}
	if j := bytes.IndexByte(p, '\r'); j >= 0 {
		return j
	}
	return i
}

// hold keeps an unfinished event, or lets it pass once it is too long.
func (s *Scanner) hold(p []byte, emit func(Event)) {
	limit := s.Limit
	if limit <= 0 {
		limit = MaxEvent
	}
	if !s.long && len(s.held)+len(p) <= limit {
		s.held = append(s.held, p...)
		return
	}
	if !s.long {
		s.long = true
		s.Oversize++
	}
	if len(s.held) > 0 {
		emit(Event{Raw: s.held})
		s.held = s.held[:0]
	}
	emit(Event{Raw: p})
}

func (s *Scanner) finish(raw []byte, emit func(Event)) {
	event := Event{Raw: raw}
	if !s.long {
		event.Data = s.payload(raw)
	}
	emit(event)
	s.held, s.long = s.held[:0], false
	if cap(s.held) > keptBytes {
		s.held = nil
	}
}

// payload joins the data lines of a whole event. One line, the usual case, is
// returned where it lies.
func (s *Scanner) payload(raw []byte) []byte {
	var data []byte
	for lines := 0; len(raw) > 0; {
		i := lineBreak(raw)
		if i < 0 {
			i = len(raw)
		}
		value, ok := bytes.CutPrefix(raw[:i], []byte("data:"))
		raw = raw[min(i+1, len(raw)):]
		if !ok {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if lines++; lines == 1 {
			data = value
			continue
		}
		if lines == 2 {
			s.data = append(s.data[:0], data...)
		}
		s.data = append(append(s.data, '\n'), value...)
		data = s.data
	}
	return data
}
