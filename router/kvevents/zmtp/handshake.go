package zmtp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	greetingBytes  = 64
	mechanismBytes = 20
)

// partners lists which socket types may talk to each other. No other type is told
// of: a peer could write anything there.
var partners = map[string][]string{
	"PUB":    {"SUB", "XSUB"},
	"SUB":    {"PUB", "XPUB"},
	"DEALER": {"ROUTER", "REP", "DEALER"},
	"ROUTER": {"DEALER", "REQ", "ROUTER"},
	"XPUB":   {}, "XSUB": {}, "REQ": {}, "REP": {}, "PUSH": {}, "PULL": {}, "PAIR": {}, // others'
}

// greeting is our first 64 bytes: version 3.1, NULL, not a server.
func greeting() []byte {
	g := make([]byte, greetingBytes)
	g[0], g[9] = 0xff, 0x7f
	g[10], g[11] = 3, 1
	copy(g[12:12+mechanismBytes], "NULL")
	return g
}

// parseGreeting checks the peer's 64 bytes and returns its minor version.
func parseGreeting(g []byte) (minor byte, err error) {
	if len(g) != greetingBytes || g[0] != 0xff || g[9]&1 != 1 {
		return 0, fmt.Errorf("greeting: not ZMTP")
	}
	if g[10] < 3 {
		return 0, fmt.Errorf("greeting: ZMTP %d is too old, 3.0 is needed", g[10])
	}
	mechanism := string(bytes.TrimRight(g[12:12+mechanismBytes], "\x00"))
	if mechanism != "NULL" {
		return 0, errors.New("greeting: it wants a security mechanism, only NULL is spoken")
	}
	if g[10] > 3 {
		return 1, nil
	}
	return g[11], nil
}

// handshake exchanges greetings and READY.
func (c *conn) handshake(socketType string, identity []byte) error {
	if _, err := c.nc.Write(greeting()); err != nil {
		return err
	}
	// A peer of an older protocol sends less than 64 bytes: look at the
	// version as soon as it is there.
	g := make([]byte, greetingBytes)
	if _, err := io.ReadFull(c.dec.r, g[:11]); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	if g[0] != 0xff || g[9]&1 != 1 || g[10] < 3 {
		_, err := parseGreeting(g)
		return err
	}
	if _, err := io.ReadFull(c.dec.r, g[11:]); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	minor, err := parseGreeting(g)
	if err != nil {
		return err
	}
	c.minor = minor
	if _, err := c.nc.Write(appendCommand(nil, "READY", readyBody(socketType, identity))); err != nil {
		return err
	}
	return c.readReady(socketType)
}

// readReady waits for the peer's READY and checks what it is.
func (c *conn) readReady(socketType string) error {
	it, err := c.dec.next()
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	switch it.command {
	case "READY":
	case "ERROR":
		return errors.New("handshake: the engine refuses it")
	default:
		return fmt.Errorf("handshake: %w instead of READY", errCommand)
	}
	peerType, identity, err := parseMetadata(it.body)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if slices.Contains(partners[socketType], peerType) {
		c.identity = identity
		return nil
	}
	if partners[peerType] == nil {
		peerType = "a socket of another kind"
	}
	reason := fmt.Sprintf("%s does not talk to %s", socketType, peerType)
	_, _ = c.nc.Write(appendCommand(nil, "ERROR", append([]byte{byte(len(reason))}, reason...)))
	return fmt.Errorf("handshake: %s", reason)
}

// readyBody is the metadata we send.
func readyBody(socketType string, identity []byte) []byte {
	b := appendProperty(nil, "Socket-Type", []byte(socketType))
	if socketType == "DEALER" {
		b = appendProperty(b, "Identity", identity)
	}
	return b
}

// appendProperty appends one metadata property.
func appendProperty(dst []byte, name string, value []byte) []byte {
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// parseMetadata reads the properties of a READY. Unknown ones are ignored.
func parseMetadata(b []byte) (socketType string, identity []byte, err error) {
	for len(b) > 0 {
		n := int(b[0])
		if n == 0 || len(b) < 1+n+4 {
			return "", nil, errMetadata
		}
		name := string(b[1 : 1+n])
		size := binary.BigEndian.Uint32(b[1+n:])
		b = b[1+n+4:]
		if uint64(size) > uint64(len(b)) {
			return "", nil, errMetadata
		}
		value := b[:size]
		b = b[size:]
		switch strings.ToLower(name) {
		case "socket-type":
			socketType = string(value)
		case "identity":
			if len(value) > maxIdentityBytes {
				return "", nil, errMetadata
			}
			identity = bytes.Clone(value)
		}
	}
	return socketType, identity, nil
}
