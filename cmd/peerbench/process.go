package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// A comparison is one run of the command: the folder with its databases, and the results so far.
type comparison struct {
	cfg      *config
	dir      string
	progress io.Writer
	results  []*result
}

// loadedDir and workDir return the folder of an engine's database for workloads that do not change
// it, and for the others.
func (c *comparison) loadedDir(engine string) string { return filepath.Join(c.dir, engine+"-loaded") }
func (c *comparison) workDir(engine string) string   { return filepath.Join(c.dir, engine+"-work") }

// measureAll measures all rounds. Engines take turns within each workload, so all of them suffer
// if the machine is slow for a while.
func (c *comparison) measureAll(ctx context.Context) error {
	for round := range c.cfg.Rounds {
		for _, name := range c.cfg.Workloads {
			w, _ := findWorkload(name) // parseConfig has checked the names
			for _, threads := range c.threads(w) {
				if err := c.measureEngines(ctx, w, threads, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measureEngines measures a workload with every engine. Each round starts with a different one.
func (c *comparison) measureEngines(ctx context.Context, w *workload, threads, round int) error {
	for i := range c.cfg.Engines {
		engine := c.cfg.Engines[(i+round)%len(c.cfg.Engines)]
		if err := c.measure(ctx, engine, w, threads, round); err != nil {
			return fmt.Errorf("%s, %s: %w", engine, w.name, err)
		}
	}
	return nil
}

func (c *comparison) threads(w *workload) []int {
	switch {
	case w.scales:
		return c.cfg.Threads
	case w.writers:
		return c.cfg.Writers
	}
	return []int{1}
}

func (c *comparison) measure(ctx context.Context, engine string, w *workload, threads, round int) error {
	dir, err := c.database(ctx, engine, w.base)
	if err != nil {
		return err
	}
	r, err := c.process(ctx, request{Config: c.cfg, Dir: dir, Engine: engine, Workload: w.name, Threads: threads})
	if err != nil {
		return err
	}
	r.Round = round
	c.results = append(c.results, r)
	fmt.Fprintf(c.progress, "round %d  %-22s %2d threads  %-10s %12.0f ops/s\n", round+1, w.name, threads, engine, r.OpsPerSec)
	if w.base != loaded {
		return os.RemoveAll(dir)
	}
	return nil
}

// database returns the folder with the database for a workload, and creates it if necessary.
func (c *comparison) database(ctx context.Context, engine string, b base) (string, error) {
	work := c.workDir(engine)
	if b == empty {
		return work, os.MkdirAll(work, 0o755)
	}
	dir := c.loadedDir(engine)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		fmt.Fprintf(c.progress, "         loading %s\n", engine)
		if _, err := c.process(ctx, request{Config: c.cfg, Dir: dir, Engine: engine, Workload: loading}); err != nil {
			return "", fmt.Errorf("loading: %w", err)
		}
		if err := syncFiles(dir); err != nil {
			return "", err
		}
	}
	if b == copied {
		return work, errors.Join(os.CopyFS(work, os.DirFS(dir)), syncFiles(work))
	}
	return dir, nil
}

// syncFiles waits until the files below dir are on the device, so they are not written during a measurement. It also
// makes later writes count: the system counts a page when it becomes dirty, not at each write to it.
func syncFiles(dir string) error {
	return filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// process runs a request in a separate process.
func (c *comparison) process(ctx context.Context, q request) (*result, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if d, ok := findDriver(allDrivers, q.Engine); ok && d.Program != "" {
		program = d.Program
	}
	input, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childMark+"=1")
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	r := &result{}
	if err := json.Unmarshal(output, r); err != nil {
		return nil, fmt.Errorf("invalid result of the measuring process: %q: %w", output, err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return r, nil
}
