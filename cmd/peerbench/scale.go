package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
)

// scaledReads are the workloads that --scale runs on the filled database. They do not change it.
var scaledReads = []string{"readrandom", "readmissing", "readhot", "seekrandom", "readseq", "ycsb-c", scanningKeys}

// scanningKeys is readkeys, which is done only if it is asked for.
const scanningKeys = "readkeys"

// deleting is the workload deleterandom, after the reads.
const deleting = "deleterandom"

// scaleNames returns the default of --scale-workloads.
func scaleNames() []string {
	usual := slices.DeleteFunc(slices.Clone(scaledReads), func(name string) bool { return name == scanningKeys })
	return append([]string{filling, opening, recovering}, usual...)
}

// scaleParts returns the possible values of --scale-workloads.
func scaleParts() []string { return append(scaleNames(), overwriting, scanningKeys, deleting, rated) }

// overwriting is the workload overwrite with --overwrites of the keys, right after the fill.
const overwriting = "overwrite"

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

// large reports whether each size has a table of its own, with all figures of all engines.
func (c *config) large() bool {
	return c.scaled() && (c.scales(overwriting) || c.scales(deleting) || c.scales(rated))
}

func (c *config) scales(name string) bool { return slices.Contains(c.ScaleWorkloads, name) }

// errTooLong ends the measurement of an engine that exceeds --limit.
var errTooLong = errors.New("exceeds --limit")

// measureScale measures each engine at each size. There is one database at a time: it is filled,
// overwritten, opened, read, abandoned and recovered, and finally written at fixed rates.
func (c *comparison) measureScale(ctx context.Context) error {
	for _, keys := range c.cfg.Scale {
		for _, engine := range c.cfg.Engines {
			if err := c.measureSize(ctx, c.cfg.atSize(keys), engine); err != nil && !errors.Is(err, errTooLong) {
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
		if err == nil || errors.Is(err, errTooLong) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	for _, step := range c.scaleSteps(cfg, engine) {
		if step == overwriting {
			if err := syncFiles(dir); err != nil {
				return err
			}
		}
		if _, err := c.measureStep(ctx, step, request{Config: cfg, Dir: dir, Engine: engine, Workload: step, Threads: 1}); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	if cfg.scales(rated) {
		return c.measureRates(ctx, cfg, dir, engine)
	}
	return nil
}

// measureStep runs a request in at most --limit, and adds its result under a name.
func (c *comparison) measureStep(ctx context.Context, name string, q request) (*result, error) {
	limited, cancel := ctx, func() {}
	if c.cfg.Limit > 0 {
		limited, cancel = context.WithTimeout(ctx, c.cfg.Limit)
	}
	defer cancel()
	r, err := c.process(limited, q)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		r = &result{Engine: q.Engine, Threads: q.Threads, Error: fmt.Sprintf("not finished after %s", c.cfg.Limit)}
		err = errTooLong
	}
	if r == nil || name == abandoning && err == nil {
		return nil, err
	}
	r.Workload, r.Keys = name, q.Config.Num
	c.results = append(c.results, r)
	fmt.Fprintf(c.progress, "%11d keys  %2d threads  %-22s %-16s %s\n", r.Keys, r.Threads, name, q.Engine, r.summary())
	return r, err
}

// summary returns the result's main figure, for progress messages.
func (r *result) summary() string {
	switch {
	case r.Error != "":
		return r.Error
	case r.Further.Waits != nil:
		return fmt.Sprintf("%9.0f ops/s, p99.99 %.2f ms", r.OpsPerSec, r.Further.Waits.P9999/1e3)
	case r.OpenSeconds != nil:
		return fmt.Sprintf("%9.1f ms", *r.OpenSeconds*1e3)
	}
	return fmt.Sprintf("%9.0f ops/s", r.OpsPerSec)
}

// scaleSteps returns the steps for one database, in order.
func (c *comparison) scaleSteps(cfg *config, engine string) []string {
	steps := []string{"fillrandom"}
	if cfg.scales(overwriting) {
		steps = append(steps, overwriting)
	}
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
	if cfg.scales(deleting) {
		steps = append(steps, deleting)
	}
	if cfg.scales(recovering) {
		steps = append(steps, abandoning, recovering)
	}
	return steps
}
