package main

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// scaledReads are the workloads that --scale runs on the filled database. They do not change it.
var scaledReads = []string{"readrandom", "readmissing", "readhot", "seekrandom", "readseq", "ycsb-c"}

// scaleNames returns the possible values of --scale-workloads.
func scaleNames() []string {
	return append([]string{filling, opening, recovering}, scaledReads...)
}

// filling is fillrandom with one writer. It is always done.
const filling = "fill"

// scaleLookups is the default number of lookups for all sizes.
const scaleLookups = 1_000_000

// atSize returns the configuration for one of the sizes.
func (c *config) atSize(keys int) *config {
	one := *c
	one.Num, one.Reads = keys, min(c.Reads, keys)
	return &one
}

// scaled reports whether sizes are measured instead of workloads.
func (c *config) scaled() bool { return len(c.Scale) > 0 }

func (c *config) scales(name string) bool { return slices.Contains(c.ScaleWorkloads, name) }

// measureScale measures each engine at each size. There is one database at a time: it is filled,
// opened, read, and finally abandoned and recovered.
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
		fmt.Fprintf(c.progress, "%11d keys  %-12s %-16s %s\n", cfg.Num, step, engine, r.summary())
	}
	return nil
}

// summary returns the result's main figure, for progress messages.
func (r *result) summary() string {
	if r.OpenSeconds != nil {
		return fmt.Sprintf("%9.1f ms", *r.OpenSeconds*1e3)
	}
	return fmt.Sprintf("%9.0f ops/s", r.OpsPerSec)
}

// scaleSteps returns the steps for one database, in order.
func (c *comparison) scaleSteps(cfg *config, engine string) []string {
	steps := []string{"fillrandom"}
	if cfg.scales(opening) {
		d, _ := findDriver(allDrivers, engine) // parseConfig has checked the names
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
