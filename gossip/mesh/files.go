package mesh

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// maxPEMBytes bounds a certificate file.
const maxPEMBytes = 1 << 20

// expiryEvery is how often standing streams are held against the time.
const expiryEvery = time.Minute

// fileIdentity is a certificate, its key and the mesh's authority from PEM
// files, read again when one of them changes.
type fileIdentity struct {
	paths TLSFiles
	clock func() time.Time

	mu      sync.Mutex // guards below
	read    [3]fileStamp
	checked time.Time // when a change was last reported
	cert    tls.Certificate
	roots   *x509.CertPool
}

// fileStamp tells whether a file changed.
type fileStamp struct {
	modified time.Time
	size     int64
}

func newFileIdentity(paths TLSFiles, clock func() time.Time) (*fileIdentity, error) {
	f := &fileIdentity{paths: paths, clock: clock}
	if _, err := f.refresh(); err != nil {
		return nil, err
	}
	return f, nil
}

// refresh reads the files if one changed; what was read stays if that fails.
// Once a minute it calls that a change, because certificates expire.
func (f *fileIdentity) refresh() (changed bool, err error) {
	f.mu.Lock()
	same, checked := f.read, f.checked
	f.mu.Unlock()
	now, err := f.stamps()
	if err != nil {
		return false, err
	}
	at := f.clock()
	if now == same {
		if at.Sub(checked) < expiryEvery {
			return false, nil
		}
		f.mu.Lock()
		f.checked = at
		f.mu.Unlock()
		return true, nil
	}
	cert, roots, err := f.load()
	if err != nil {
		return false, err
	}
	f.mu.Lock()
	f.read, f.cert, f.roots, f.checked = now, cert, roots, at
	f.mu.Unlock()
	return true, nil
}

func (f *fileIdentity) stamps() (out [3]fileStamp, err error) {
	for i, path := range []string{f.paths.Cert, f.paths.Key, f.paths.CA} {
		st, err := os.Stat(path)
		if err != nil {
			return out, fmt.Errorf("mesh.tls: %w", err)
		}
		if st.Size() > maxPEMBytes {
			return out, fmt.Errorf("mesh.tls: %s is longer than %d bytes", path, maxPEMBytes)
		}
		out[i] = fileStamp{modified: st.ModTime(), size: st.Size()}
	}
	return out, nil
}

func (f *fileIdentity) load() (tls.Certificate, *x509.CertPool, error) { return f.paths.load() }

// Check reads the files and reports every fault, each beginning with its key.
// Without names there is none.
func (f TLSFiles) Check() error {
	if !f.all() {
		return nil
	}
	_, _, err := f.load()
	return err
}

// load reads the files. All faults come back, each beginning with its key.
func (f TLSFiles) load() (tls.Certificate, *x509.CertPool, error) {
	var data [3][]byte
	var faults []error
	for i, file := range [][2]string{{"cert", f.Cert}, {"key", f.Key}, {"ca", f.CA}} {
		var err error
		if data[i], err = readPEM(file[1]); err != nil {
			faults = append(faults, fmt.Errorf("mesh.tls.%s: %w", file[0], err))
		}
	}
	var cert tls.Certificate
	if faults == nil {
		var err error
		if cert, err = tls.X509KeyPair(data[0], data[1]); err != nil {
			at := "cert"
			if x509.NewCertPool().AppendCertsFromPEM(data[0]) { // the fault is not there
				at = "key"
			}
			faults = append(faults, fmt.Errorf("mesh.tls.%s: %w", at, err))
		}
	}
	roots := x509.NewCertPool()
	if data[2] != nil && !roots.AppendCertsFromPEM(data[2]) {
		faults = append(faults, fmt.Errorf("mesh.tls.ca: no certificate in %s", f.CA))
	}
	if faults != nil {
		return cert, nil, errors.Join(faults...)
	}
	if cert.Leaf == nil {
		var err error
		if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			return cert, nil, fmt.Errorf("mesh.tls.cert: %w", err)
		}
	}
	return cert, roots, nil
}

// readPEM reads a regular file of bounded size.
func readPEM(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case st.Size() > maxPEMBytes:
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxPEMBytes)
	}
	return os.ReadFile(path)
}

func (f *fileIdentity) configs() (client, server *tls.Config) {
	f.mu.Lock()
	cert := f.cert
	f.mu.Unlock()
	return tlsConfigs(cert,
		func(s tls.ConnectionState) error { return f.verify(s, x509.ExtKeyUsageServerAuth) },
		func(s tls.ConnectionState) error { return f.verify(s, x509.ExtKeyUsageClientAuth) })
}

// verify checks a chain up to the authority as it is now.
func (f *fileIdentity) verify(s tls.ConnectionState, usage x509.ExtKeyUsage) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("no certificate")
	}
	f.mu.Lock()
	opts := x509.VerifyOptions{Roots: f.roots, CurrentTime: f.clock(), KeyUsages: []x509.ExtKeyUsage{usage}}
	f.mu.Unlock()
	opts.Intermediates = x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(opts)
	return err
}

func (f *fileIdentity) trusts(s tls.ConnectionState) bool {
	return f.verify(s, x509.ExtKeyUsageAny) == nil
}

func (f *fileIdentity) expires() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cert.Leaf.NotAfter
}
