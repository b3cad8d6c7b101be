package kvevents

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// packJSON rewrites JSON as msgpack, so that one decoder reads both. Integers
// keep all 64 bits. The result is at most about five times as long.
func packJSON(body []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	out, err := packValue(make([]byte, 0, len(body)), dec, maxDepth)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return out, nil
}

// packValue rewrites the next value.
func packValue(dst []byte, dec *json.Decoder, depth int) ([]byte, error) {
	tok, err := dec.Token()
	if err != nil {
		return dst, err
	}
	switch v := tok.(type) {
	case nil:
		return append(dst, 0xc0), nil
	case bool:
		if v {
			return append(dst, 0xc3), nil
		}
		return append(dst, 0xc2), nil
	case string:
		return packString(dst, v), nil
	case json.Number:
		return packNumber(dst, string(v))
	case json.Delim:
		if depth == 0 {
			return dst, errors.New("nested too deep")
		}
		return packMany(dst, dec, v == '{', depth-1)
	}
	return dst, fmt.Errorf("unexpected %v", tok)
}

// packMany rewrites a container whose opening bracket was read.
func packMany(dst []byte, dec *json.Decoder, pairs bool, depth int) ([]byte, error) {
	head := len(dst)
	dst = append(dst, 0xdd, 0, 0, 0, 0)
	if pairs {
		dst[head] = 0xdf
	}
	var n uint32
	var err error
	for ; dec.More(); n++ {
		if pairs {
			if dst, err = packValue(dst, dec, 0); err != nil {
				return dst, err
			}
		}
		if dst, err = packValue(dst, dec, depth); err != nil {
			return dst, err
		}
	}
	binary.BigEndian.PutUint32(dst[head+1:], n)
	_, err = dec.Token()
	return dst, err
}

// packString appends a str32.
func packString(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(len(s)))
	return append(dst, s...)
}

// packNumber appends an integer in its exact value, anything else as a float.
func packNumber(dst []byte, s string) ([]byte, error) {
	if v, err := strconv.ParseUint(s, 10, 64); err == nil {
		return binary.BigEndian.AppendUint64(append(dst, 0xcf), v), nil
	}
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(v)), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return dst, err
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(f)), nil
}
