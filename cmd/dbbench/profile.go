package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/sievedb/sievedb/vfs/outfile"
)

// startProfiles starts the profiles for which a file is named. finish ends and writes them.
func startProfiles(cpuFile, memFile string) (finish func() error, err error) {
	var cpu *os.File
	if cpuFile != "" {
		if cpu, err = outfile.Create(cpuFile, 0o644); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, errors.Join(err, cpu.Close())
		}
	}
	return func() error {
		var err error
		if cpu != nil {
			pprof.StopCPUProfile()
			err = cpu.Close()
		}
		if memFile != "" {
			err = errors.Join(err, writeHeapProfile(memFile))
		}
		return err
	}, nil
}

func writeHeapProfile(name string) error {
	f, err := outfile.Create(name, 0o644)
	if err != nil {
		return err
	}
	runtime.GC() // the profile shows what is live as of the last collection
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}
