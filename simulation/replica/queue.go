package replica

// queue is a double-ended queue of sequences.
type queue struct {
	items []*sequence
	head  int // items[:head] are gone
}

func (q *queue) len() int             { return len(q.items) - q.head }
func (q *queue) all() []*sequence     { return q.items[q.head:] }
func (q *queue) front() *sequence     { return q.items[q.head] }
func (q *queue) pushBack(s *sequence) { q.items = append(q.items, s) }

// pushFront is O(1) while something was popped before, else O(n).
func (q *queue) pushFront(s *sequence) {
	if q.head > 0 {
		q.head--
		q.items[q.head] = s
		return
	}
	q.items = append(q.items, nil)
	copy(q.items[1:], q.items)
	q.items[0] = s
}

func (q *queue) popFront() *sequence {
	s := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return s
}

// remove takes s out wherever it is, O(n).
func (q *queue) remove(s *sequence) bool {
	for i := q.head; i < len(q.items); i++ {
		if q.items[i] == s {
			copy(q.items[i:], q.items[i+1:])
			q.items[len(q.items)-1] = nil
			q.items = q.items[:len(q.items)-1]
			return true
		}
	}
	return false
}
