package main

import (
	"encoding/json"
	"runtime"
	"time"

	"github.com/sievedb/sievedb/vfs/outfile"
)

// jsonVersion is the version of the JSON file's form. Adding a field keeps it; removing a field
// or changing its meaning raises it.
const jsonVersion = 1

// jsonFile has all results of a run. README.md documents it.
type jsonFile struct {
	Version        int       `json:"version"`
	Program        string    `json:"program"`
	Started        time.Time `json:"started"`
	Machine        machine   `json:"machine"`
	Settings       *config   `json:"settings"`
	Keys           int       `json:"keys"`
	Results        []*result `json:"results"`
	DiskReadsSaved *report   `json:"disk_reads_saved"` // null without filterreads
	Stats          *stats    `json:"stats"`            // null without stats; the last
	Error          string    `json:"error,omitempty"`
}

type machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// writeJSON writes the file of --json. failure is the error that ended the run early, or nil.
func (s *session) writeJSON(started time.Time, failure error) error {
	out := jsonFile{
		Version: jsonVersion, Program: "dbbench", Started: started.UTC(),
		Machine:  machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()},
		Settings: s.cfg, Keys: s.keys.num, Results: s.results, DiskReadsSaved: s.report, Stats: s.stats,
	}
	if out.Results == nil {
		out.Results = []*result{}
	}
	if failure != nil {
		out.Error = failure.Error()
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return outfile.Write(s.cfg.JSON, append(data, '\n'), 0o644)
}
