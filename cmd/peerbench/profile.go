package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/sievedb/sievedb/vfs/outfile"
)

// profile starts the CPU profile of a measurement if --cpuprofiles is given, and stop ends it. Each
// round overwrites the file of the previous one.
func (c *config) profile(r *result) (stop func() error, err error) {
	if c.Profiles == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(c.Profiles, 0o755); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s-%s-%d-threads-%d-keys.pprof", r.Engine, r.Workload, r.Threads, c.Num)
	f, err := outfile.Create(filepath.Join(c.Profiles, name), 0o644)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
