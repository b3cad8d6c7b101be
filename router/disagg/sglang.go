package disagg

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/banyan-llm/banyan/router/openai"
)

// bootstrapPort is where SGLang's prefill servers listen unless told otherwise.
const bootstrapPort = 8998

// drawRoom draws the name under which two SGLang servers meet (I3); never 0. from
// is usually crypto/rand's Reader; nil is that.
func drawRoom(from io.Reader) (uint64, error) {
	if from == nil {
		from = rand.Reader
	}
	var b [8]byte
	for {
		if _, err := io.ReadFull(from, b[:]); err != nil {
			return 0, err
		}
		if room := binary.LittleEndian.Uint64(b[:]) & math.MaxInt64; room != 0 {
			return room, nil
		}
	}
}

// roomOfRank is a room near the drawn one that belongs to a data-parallel rank
// of the prefill server: releases that are not told the rank work it out as
// the room modulo the ranks.
func roomOfRank(room uint64, rank, ranks int) uint64 {
	if ranks < 2 || rank < 0 || rank >= ranks {
		return room
	}
	room = room - room%uint64(ranks) + uint64(rank)
	if room == 0 || room > math.MaxInt64 {
		room = uint64(ranks) + uint64(rank)
	}
	return room
}

// sglangBoth is the body that both legs get, at the same time: the client's,
// and where and in which room the prefill server waits. host is its name or
// address without brackets.
func sglangBoth(r *openai.Request, host string, port int, room uint64) []byte {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	quoted, err := json.Marshal(host)
	if err != nil {
		panic("invariant: a string marshals: " + err.Error())
	}
	leg := r.Clone()
	leg.Set("bootstrap_host", quoted)
	leg.Set("bootstrap_port", strconv.AppendInt(nil, int64(port), 10))
	leg.Set("bootstrap_room", strconv.AppendUint(nil, room, 10))
	return leg.Bytes()
}

// usageOf finds the usage of an answer, streamed or whole.
func usageOf(contentType string, body []byte) (u openai.Usage) {
	if !strings.HasPrefix(contentType, "text/event-stream") {
		return openai.ParseUsage(body)
	}
	var scanner openai.Scanner
	scanner.Feed(body, func(e openai.Event) {
		if e.Data != nil {
			if chunk := openai.ParseChunk(e.Data); chunk.Usage.Known {
				u = chunk.Usage
			}
		}
	})
	return u
}
