package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// secondSignal makes the test below the process that is ended.
const secondSignal = "SECOND_SIGNAL_TEST"

func TestASecondSignalEndsTheProcessWithAWord(t *testing.T) {
	if os.Getenv(secondSignal) != "" {
		ctx := untilSignal(os.Stderr)
		fmt.Println("waits")
		<-ctx.Done()
		fmt.Println("drains")
		time.Sleep(time.Minute)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), secondSignal+"=1")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"waits", "drains"} {
		line := make([]byte, len(word)+1)
		if _, err := out.Read(line); err != nil || strings.TrimSpace(string(line)) != word {
			t.Fatalf("%q, %v, want %s", line, err, word)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	if st := cmd.ProcessState.Sys().(syscall.WaitStatus); !st.Signaled() || st.Signal() != syscall.SIGTERM || !strings.Contains(errs.String(), "ended by a second signal (terminated)") {
		t.Errorf("%v: %s", cmd.ProcessState, errs.String())
	}
}
