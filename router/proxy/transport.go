package proxy

import (
	"net"
	"net/http"
	"time"
)

// NewTransport returns the pool of connections to replicas: plain HTTP/1.1,
// no proxy from the environment, nothing decompressed. Idle connections end
// before uvicorn's 5 s do, or requests would meet them closing.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		MaxIdleConnsPerHost:    512,
		IdleConnTimeout:        4 * time.Second,
		TLSHandshakeTimeout:    3 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		ReadBufferSize:         8 << 10,
		WriteBufferSize:        16 << 10,
	}
}
