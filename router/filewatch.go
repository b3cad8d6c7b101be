package router

import "os"

// fileStates tell whether files changed: what they were at one moment, by path;
// nil for one that was not there. Links are followed, so the swap of a link
// above a file (as Kubernetes does with mounted ConfigMaps and Secrets) shows.
type fileStates map[string]os.FileInfo

func fileStatesOf(paths []string) fileStates {
	out := make(fileStates, len(paths))
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			info = nil
		}
		out[path] = info
	}
	return out
}

// again looks at the same files now.
func (s fileStates) again() fileStates {
	paths := make([]string, 0, len(s))
	for path := range s {
		paths = append(paths, path)
	}
	return fileStatesOf(paths)
}

// equal reports whether no file was written, replaced, made or removed between
// the two.
func (s fileStates) equal(b fileStates) bool {
	if len(s) != len(b) {
		return false
	}
	for path, was := range s {
		is, ok := b[path]
		switch {
		case !ok || (was == nil) != (is == nil):
			return false
		case was != nil && (!os.SameFile(was, is) || was.Size() != is.Size() || !was.ModTime().Equal(is.ModTime())):
			return false
		}
	}
	return true
}
