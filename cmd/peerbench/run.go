package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// The exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as shells report a program that SIGINT ended
)

// run runs the command with args, which exclude its name, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parseConfig(args, allDrivers, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(stderr, "peerbench:", err)
		return exitUsage
	}
	if len(cfg.from) > 0 {
		err = redraw(cfg)
	} else {
		err = compare(ctx, cfg, stdout, stderr)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "peerbench: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(stderr, "peerbench:", err)
		return exitFailed
	}
	return exitOK
}

// compare measures and writes the reports. After an error it prints the results so far.
func compare(ctx context.Context, cfg *config, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	if err := bench.Writable(cfg.files()...); err != nil {
		return err
	}
	if cfg.dir != "" {
		if err := os.MkdirAll(cfg.dir, 0o755); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(cfg.dir, "peerbench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := &comparison{cfg: cfg, dir: dir, progress: stderr}
	measure := c.measureAll
	if cfg.scaled() {
		measure = c.measureScale
	}
	err = measure(ctx)
	rep := newReport(cfg, began, allDrivers, c.results)
	rep.writeText(stdout)
	return errors.Join(err, rep.writeFiles(err == nil))
}
