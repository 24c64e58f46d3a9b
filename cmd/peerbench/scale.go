package main

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// scaledReads are the workloads that --scale measures on the database that its fill
// has left. They leave it as it is.
var scaledReads = []string{"readrandom", "readmissing", "readhot", "seekrandom", "readseq", "ycsb-c"}

// scaleNames are what --scale-workloads may name.
func scaleNames() []string {
	return append([]string{filling, opening, recovering}, scaledReads...)
}

// filling is fillrandom by one writer, without which there is nothing to measure.
const filling = "fill"

// scaleLookups are enough at any size.
const scaleLookups = 1_000_000

// atSize is the configuration for one of the sizes.
func (c *config) atSize(keys int) *config {
	one := *c
	one.Num, one.Reads = keys, min(c.Reads, keys)
	return &one
}

// scaled says that sizes are measured, not workloads.
func (c *config) scaled() bool { return len(c.Scale) > 0 }

func (c *config) scales(name string) bool { return slices.Contains(c.ScaleWorkloads, name) }

// measureScale goes through sizes and, within, engines. There is one database at a
// time: filled, opened, read and, in the end, abandoned and recovered.
func (c *comparison) measureScale(ctx context.Context) error {
	for _, keys := range c.cfg.Scale {
		for _, engine := range c.cfg.Engines {
			if err := c.measureSize(ctx, c.cfg.atSize(keys), engine); err != nil {
				return fmt.Errorf("%s, %d keys: %w", engine, keys, err)
			}
		}
	}
	return nil
}

func (c *comparison) measureSize(ctx context.Context, cfg *config, engine string) (err error) {
	dir := c.workDir(engine)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		}
	}()
	for _, step := range c.scaleSteps(cfg, engine) {
		r, err := c.process(ctx, request{Config: cfg, Dir: dir, Engine: engine, Workload: step, Threads: 1})
		if err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		if step == abandoning {
			continue
		}
		r.Workload, r.Keys = step, cfg.Num
		c.results = append(c.results, r)
		fmt.Fprintf(c.progress, "%11d keys  %-12s %-16s %s\n", cfg.Num, step, engine, r.inShort())
	}
	return nil
}

// inShort is a result for the line that tells the progress.
func (r *result) inShort() string {
	if r.OpenSeconds != nil {
		return fmt.Sprintf("%9.1f ms", *r.OpenSeconds*1e3)
	}
	return fmt.Sprintf("%9.0f ops/s", r.OpsPerSec)
}

// scaleSteps are what is done with one database, in this order.
func (c *comparison) scaleSteps(cfg *config, engine string) []string {
	steps := []string{"fillrandom"}
	if cfg.scales(opening) {
		d, _ := findDriver(allDrivers, engine) // the names have been checked
		for range cfg.Rounds {
			steps = append(steps, opening)
			if d.MayOpenLazily {
				steps = append(steps, openLazily)
			}
		}
	}
	for _, name := range scaledReads {
		if cfg.scales(name) {
			steps = append(steps, name)
		}
	}
	if cfg.scales(recovering) {
		steps = append(steps, abandoning, recovering)
	}
	return steps
}
