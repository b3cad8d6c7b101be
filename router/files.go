package router

import "fmt"

// spareFiles are left for everything that is not a client's request: listeners,
// peers, events of engines, guests (access.Connections), operators.
const spareFiles = 512

// fitFiles is how many client connections a process may accept that may open so
// many files, and what to say if those are fewer than it was told to accept (0:
// any number). A request being answered holds a second file, its connection to a
// replica.
func fitFiles(connections, concurrency int, files uint64) (most int, warning string) {
	if files == 0 || files >= 1<<31 { // unknown, or no limit
		return connections, ""
	}
	fits := max(int(files)-concurrency-spareFiles, int(files)/4, 1)
	if connections > 0 && connections <= fits {
		return connections, ""
	}
	return fits, fmt.Sprintf("this process may open only %d files, so at most %d clients can be connected at one time: raise the limit (ulimit -n, LimitNOFILE= of systemd, the container's nofile) to %d or more, or lower limits.connections",
		files, fits, max(connections, 32768)+concurrency+spareFiles)
}
