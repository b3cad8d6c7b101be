package requests

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// queued bounds the lines that wait for the log's file: a second of a busy peer.
const queued = 4096

// reopenEvery is how often the log's path is looked at: a platform that rotates
// renames the file.
const reopenEvery = time.Second

// closeWithin bounds the wait for a reader that stands still, at the end.
const closeWithin = time.Second

// Log is the access log's file and the queue before it. Safe for concurrent
// use.
type Log struct {
	path   string // "": out is nobody's to reopen
	format string
	out    io.Writer

	lines   chan *[]byte
	buffers sync.Pool // of *[]byte
	dropped atomic.Uint64
	failed  atomic.Uint64
	written atomic.Uint64
	fault   atomic.Pointer[string] // why the last write failed; nil: it did not
	closing chan struct{}
	ended   chan struct{}

	// The writer's own.
	info   os.FileInfo
	looked time.Time
	told   uint64 // of dropped
}

// NewLog makes the log of a path in a format; Stdout is std. It fails if the
// file cannot be opened, or is none: opening a pipe waits for its reader. Close
// ends it.
func NewLog(path, format string, std io.Writer) (*Log, error) {
	l := &Log{format: format, out: std, lines: make(chan *[]byte, queued), closing: make(chan struct{}), ended: make(chan struct{})}
	l.buffers.New = func() any { return new([]byte) }
	if path != Stdout {
		l.path = path
		if err := l.open(); err != nil {
			return nil, err
		}
	}
	go l.write()
	return l, nil
}

// errNoFile is of a path that is a pipe, a socket or a folder.
var errNoFile = errors.New("is not a file; to hand lines to another process set stdout")

func (l *Log) open() error {
	if info, err := os.Stat(l.path); err == nil && !info.Mode().IsRegular() && info.Mode()&os.ModeCharDevice == 0 {
		return &os.PathError{Op: "open", Path: l.path, Err: errNoFile}
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	if l.info != nil { // it was opened before
		l.closeFile()
	}
	l.out, l.info, l.looked = f, info, time.Now()
	return nil
}

func (l *Log) closeFile() {
	if f, ok := l.out.(*os.File); ok && l.path != "" {
		f.Close()
	}
}

// Add writes a record soon. It never waits (Q3). A nil Log keeps nothing.
func (l *Log) Add(r *Record) {
	if l == nil {
		return
	}
	line := l.buffers.Get().(*[]byte)
	if l.format == Text {
		*line = AppendText((*line)[:0], r)
	} else {
		*line = AppendJSON((*line)[:0], r)
	}
	*line = append(*line, '\n')
	select {
	case l.lines <- line:
	default:
		l.dropped.Add(1)
		l.buffers.Put(line)
	}
}

// Stats are counters since the start.
type Stats struct {
	Written uint64
	Dropped uint64 // because the queue was full
	Failed  uint64 // because the file could not be written
}

// Stats returns them.
func (l *Log) Stats() Stats {
	return Stats{Written: l.written.Load(), Dropped: l.dropped.Load(), Failed: l.failed.Load()}
}

// Fault is why the last write failed, "" if it did not. A nil Log has none.
func (l *Log) Fault() string {
	if l == nil {
		return ""
	}
	if fault := l.fault.Load(); fault != nil {
		return *fault
	}
	return ""
}

// Close writes what waits and closes the file. It gives up after a second: a
// reader that stands still must not hold the end of the process.
func (l *Log) Close() {
	close(l.closing)
	select {
	case <-l.ended:
	case <-time.After(closeWithin):
	}
}

// write is the one goroutine that touches the file. It gathers what waits into
// one write.
func (l *Log) write() {
	defer close(l.ended)
	defer l.closeFile()
	var batch []byte
	for {
		select {
		case line := <-l.lines:
			batch = l.put(batch[:0], line)
		case <-l.closing:
			for len(l.lines) > 0 {
				batch = l.put(batch[:0], <-l.lines)
			}
			return
		}
	}
}

// batchBytes bounds one write.
const batchBytes = 64 << 10

// put writes a line and what waits behind it, and says how many were dropped
// before. It returns the batch, to be used again.
func (l *Log) put(batch []byte, line *[]byte) []byte {
	n := uint64(0)
	for line != nil {
		batch = append(batch, *line...)
		l.buffers.Put(line)
		n, line = n+1, nil
		if len(batch) < batchBytes {
			select {
			case line = <-l.lines:
			default:
			}
		}
	}
	if lost := l.dropped.Load(); lost > l.told {
		batch = l.appendDropped(batch, lost-l.told)
		l.told = lost
	}
	l.follow()
	if _, err := l.out.Write(batch); err != nil {
		l.failed.Add(n)
		l.fault.Store(new(err.Error()))
	} else {
		l.fault.Store(nil)
		l.written.Add(n)
	}
	return batch
}

func (l *Log) appendDropped(dst []byte, n uint64) []byte {
	if l.format == Text {
		dst = time.Now().UTC().AppendFormat(append(dst, "time="...), timeLayout)
		return append(strconv.AppendUint(append(dst, " dropped="...), n, 10), '\n')
	}
	dst = time.Now().UTC().AppendFormat(append(dst, `{"time":"`...), timeLayout)
	return append(strconv.AppendUint(append(dst, `","dropped":`...), n, 10), "}\n"...)
}

// follow opens the path anew if it no longer names the file that is open. While
// it cannot be opened the old file goes on.
func (l *Log) follow() {
	if l.path == "" || time.Since(l.looked) < reopenEvery {
		return
	}
	l.looked = time.Now()
	if info, err := os.Stat(l.path); err != nil || !os.SameFile(info, l.info) {
		_ = l.open()
	}
}
