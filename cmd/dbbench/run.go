package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// The exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1 // a workload or a check of the report failed
	exitUsage       = 2
	exitInterrupted = 130 // as shells report a program that SIGINT ended
)

// run runs the command with args, which exclude its name, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parseConfig(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(stderr, "dbbench:", err)
		return exitUsage
	}
	err = runConfig(ctx, cfg, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "dbbench: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(stderr, "dbbench:", err)
		return exitFailed
	}
	return exitOK
}

func runConfig(ctx context.Context, cfg *config, stdout, stderr io.Writer) (err error) {
	started := time.Now()
	if err := bench.Writable(cfg.JSON, cfg.SVG, cfg.CPUProfile, cfg.MemProfile); err != nil {
		return err
	}
	s, err := newSession(cfg, stdout, stderr)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.close())
		if cfg.JSON != "" {
			err = errors.Join(err, s.writeJSON(started, err))
		}
	}()
	finishProfiles, err := startProfiles(cfg.CPUProfile, cfg.MemProfile)
	if err != nil {
		return err
	}
	// Before the store is closed, so that the heap profile shows what it holds.
	defer func() { err = errors.Join(err, finishProfiles()) }()
	if len(cfg.Benchmarks) == 0 {
		return s.showcase(ctx)
	}
	s.printHeader()
	for _, name := range cfg.Benchmarks {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w, _ := findWorkload(name) // parseConfig has checked the names
		if err := s.runWorkload(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// printHeader prints the settings of the measurements.
func (s *session) printHeader() {
	c := s.cfg
	keys := fmt.Sprintf("%s of %d bytes", bench.Grouped(uint64(s.keys.num)), c.KeySize)
	if s.keys.list != nil {
		keys = fmt.Sprintf("%s from %s", bench.Grouped(uint64(s.keys.num)), c.Keys)
	}
	bits := "none"
	switch {
	case c.BloomBits == 0:
	case c.FilterKind == "fuse":
		bits = fmt.Sprintf("binary fuse, %s a slot", bench.Counted(uint64(c.BloomBits), "bit"))
	default:
		bits = fmt.Sprintf("bloom (%s), %d bits per key", c.FilterKind, c.BloomBits)
	}
	fmt.Fprintf(s.stdout, "SieveDB on %s/%s, %s, %s\n", runtime.GOOS, runtime.GOARCH, bench.Counted(uint64(runtime.NumCPU()), "CPU"), runtime.Version())
	fmt.Fprintf(s.stdout, "keys: %s; values: %d bytes, compressible to %.0f %%\n", keys, c.ValueSize, 100*c.CompressionRatio)
	fmt.Fprintf(s.stdout, "filter: %s; compression: %s; threads: %d; seed: %d\n\n", bits, c.Compression, c.Threads, c.Seed)
}
