package main

import (
	"bytes"
	"io"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router"
)

// newLogger makes the log of a peer, whose lines a queue writes. Close ends the
// queue.
func newLogger(cfg *router.LogConfig, to io.Writer) (hclog.Logger, *logQueue) {
	logger := func(to io.Writer) hclog.Logger {
		return hclog.New(&hclog.LoggerOptions{
			Name: "banyan", Level: hclog.LevelFromString(cfg.Level), JSONFormat: cfg.JSON, Output: logLines{to, cfg.JSON},
		})
	}
	q, direct := newLogQueue(to), logger(to)
	q.say = func(n uint64) {
		direct.Warn("log lines dropped here: the reader of this log was too slow", "lines", n)
	}
	go q.run()
	return logger(q), q
}

// logLines makes one line of every entry, which hclog writes at one stroke, and
// gives the keys of JSON the names that log collectors expect.
type logLines struct {
	to   io.Writer
	json bool
}

// logKeys are hclog's names and ours. Inside a value the quotes are escaped, so
// that only keys match.
var logKeys = [][2][]byte{
	{[]byte(`"@level":`), []byte(`"level":`)},
	{[]byte(`"@message":`), []byte(`"msg":`)},
	{[]byte(`"@timestamp":`), []byte(`"time":`)},
	{[]byte(`"@module":`), []byte(`"logger":`)},
}

func (l logLines) Write(entry []byte) (int, error) {
	line := bytes.TrimRight(entry, "\n")
	if l.json {
		for _, key := range logKeys {
			line = bytes.Replace(line, key[0], key[1], 1)
		}
	} else {
		line = bytes.ReplaceAll(line, []byte("\n  | "), []byte(" | ")) // hclog's values of several lines
		line = bytes.ReplaceAll(line, []byte("\n"), []byte(" | "))
	}
	if _, err := l.to.Write(append(bytes.Clone(line), '\n')); err != nil {
		return 0, err
	}
	return len(entry), nil
}
