package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// plainError is an error in this program's own words: nothing of it came from a
// server, so it may be told. Other packages have such errors too.
type plainError string

func (e plainError) Error() string { return string(e) }

// Plain is what may be told of the error.
func (e plainError) Plain() string { return string(e) }

// Refused reports whether an error means that nobody listens at the address.
func Refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH)
}

// timedOut reports whether an error means that no answer came in time.
func timedOut(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// Cause says in a few words why a replica could not be reached, or did not answer
// as it should. The words are this program's: net/http quotes what it does not
// understand of an answer, which may be the prompt.
func Cause(err error) string {
	var plain interface{ Plain() string }
	var lookup *net.DNSError
	var number syscall.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &plain):
		return plain.Plain()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case timedOut(err):
		return "time-out"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	case errors.As(err, &lookup):
		return lookup.Err
	case errors.As(err, &number):
		return number.Error()
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return "it speaks http: write http:// in url"
	}
	return unreadable(err)
}

// unreadable says of what kind an answer is that no rule of TLS or HTTP allows.
func unreadable(err error) string {
	var alert tls.AlertError
	var name x509.HostnameError
	var issuer x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &alert):
		return alert.Error()
	case errors.As(err, &issuer):
		return "its certificate is signed by an unknown authority"
	case errors.As(err, &name):
		return "its certificate is of another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not yet valid"
	case errors.As(err, &invalid):
		return "its certificate is not valid"
	}
	return "the connection broke, or what came is no HTTP"
}
