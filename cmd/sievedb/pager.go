package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"

	"golang.org/x/term"
)

// pages are the verbs whose output a shell shows with a pager if the terminal is too low for it.
var pages = map[string]bool{
	"get": true, "has": true, "scan": true, "tables": true, "properties": true, "filters": true, "dump": true, "diff": true, "help": true,
	"namespaces": true, "size": true, "sizes": true, "explain": true, "plan": true, "stats": true, "backups": true, "check": true,
}

// pager passes what is written to it to the terminal, or to the user's pager once it is longer than the terminal is
// high.
type pager struct {
	out           io.Writer
	width, height int
	begin         func(out io.Writer) (io.WriteCloser, func() error, error)

	held  bytes.Buffer // until it is known whether the pager is needed
	lines int
	to    io.Writer // where the rest goes; nil: to held
	end   func()
}

func newPager(out io.Writer) *pager {
	p := &pager{out: out, width: terminalWidth(out), height: defaultHeight, begin: startPager, end: func() {}}
	if f, ok := out.(*os.File); ok {
		if _, height, err := term.GetSize(int(f.Fd())); err == nil && height > 1 {
			p.height = height
		}
	}
	return p
}

const defaultHeight = 24

// Width says that the pager is a terminal, as terminalWidth asks.
func (p *pager) Width() int { return p.width }

// Write implements io.Writer.
func (p *pager) Write(b []byte) (int, error) {
	if p.to != nil {
		return p.to.Write(b)
	}
	p.held.Write(b)
	for line := range bytes.Lines(b) {
		p.lines += 1 + len(line)/max(p.width, 1)
	}
	if p.lines >= p.height {
		if err := p.start(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// start passes on what was held, to the pager if there is one.
func (p *pager) start() error {
	p.to = p.out
	if to, wait, err := p.begin(p.out); err == nil {
		p.to = to
		p.end = func() {
			_ = to.Close()
			_ = wait() // how the pager ends is its own matter
		}
	}
	_, err := p.to.Write(p.held.Bytes())
	p.held.Reset()
	return err
}

// close waits until the user has left the pager.
func (p *pager) close() {
	if p.to == nil {
		_, _ = p.out.Write(p.held.Bytes()) // as without a pager, nobody can see the error
	}
	p.end()
}

// startPager starts $PAGER, or less or more.
func startPager(out io.Writer) (io.WriteCloser, func() error, error) {
	cmd := exec.Command("sh", "-c", os.Getenv("PAGER"))
	if os.Getenv("PAGER") == "" {
		path, err := exec.LookPath("less")
		if err != nil {
			path, err = exec.LookPath("more")
		}
		if err != nil {
			return nil, nil, err
		}
		cmd = exec.Command(path)
	}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Env = os.Environ()
	if os.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX") // colours, and what is on the screen stays there
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	return in, cmd.Wait, cmd.Start()
}
