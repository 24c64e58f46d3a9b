package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// startProfiles starts the profiles for which a file is named. finish ends and writes them.
func startProfiles(cpuFile, memFile string) (finish func() error, err error) {
	var cpu *os.File
	if cpuFile != "" {
		if cpu, err = os.Create(cpuFile); err != nil {
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
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	runtime.GC() // the profile shows what is live as of the last collection
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}
