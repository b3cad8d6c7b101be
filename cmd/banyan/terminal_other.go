//go:build !linux

package main

import "io"

// terminalWidth is 0: lines are not cut.
func terminalWidth(io.Writer) int { return 0 }
