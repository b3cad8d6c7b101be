//go:build !unix

package router

import "time"

func cpuTime() time.Duration { return 0 }
