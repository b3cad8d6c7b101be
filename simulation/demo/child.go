package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startTimeout bounds how long a child may take to say where it listens.
const startTimeout = 15 * time.Second

// child is one process of our own binary.
type child struct {
	name string
	cmd  *exec.Cmd
	log  string            // path of its stderr
	said map[string]string // key=value pairs of its first line
	done chan struct{}     // closed when the process is gone and waited for
	err  error             // of Wait; read after done
}

// start runs the binary and waits for its first line: words and key=value
// pairs, such as "banyan replica r0 http=127.0.0.1:4711 events=…".
func start(ctx context.Context, binary, dir, name string, args ...string) (*child, error) {
	logPath := filepath.Join(dir, name+".log")
	logFile, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stderr = logFile
	dieWithParent(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &child{name: name, cmd: cmd, log: logPath, said: map[string]string{}, done: make(chan struct{})}
	line := make(chan string, 1)
	go func() {
		defer close(c.done)
		r := bufio.NewReader(out)
		first, _ := r.ReadString('\n')
		line <- first
		_, _ = io.Copy(io.Discard, r)
		c.err = cmd.Wait()
	}()
	select {
	case first := <-line:
		for word := range strings.FieldsSeq(first) {
			if k, v, ok := strings.Cut(word, "="); ok {
				c.said[k] = v
			}
		}
		if len(c.said) == 0 {
			c.kill()
			return nil, fmt.Errorf("%s did not start: %s", name, c.tail())
		}
		return c, nil
	case <-time.After(startTimeout):
		c.kill()
		return nil, fmt.Errorf("%s said nothing for %v: %s", name, startTimeout, c.tail())
	case <-ctx.Done():
		c.kill()
		return nil, ctx.Err()
	}
}

// kill sends SIGKILL and waits.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// stop sends SIGTERM and waits; it reports whether the child ended cleanly in
// time.
func (c *child) stop(limit time.Duration) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(limit):
		c.kill()
		return fmt.Errorf("%s did not stop within %v", c.name, limit)
	}
	if exit, ok := errors.AsType[*exec.ExitError](c.err); ok {
		return fmt.Errorf("%s ended with %w: %s", c.name, exit, c.tail())
	}
	return c.err
}

// tail is the end of the child's log.
func (c *child) tail() string {
	data, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	if len(data) > 2000 {
		data = data[len(data)-2000:]
	}
	return strings.TrimSpace(string(data))
}
