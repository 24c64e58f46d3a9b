package explain

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/report"
)

// Explanation returns the explanation of a lookup with these steps. kind is that of the entry that
// the last step found, if it found one.
func Explanation(steps []Step, kind base.Kind, took time.Duration) *report.Explanation {
	x := &report.Explanation{Duration: took, Steps: steps}
	if steps == nil {
		x.Steps = []Step{}
	}
	sumUp(x, kind)
	return x
}

// sumUp adds up the steps.
func sumUp(x *report.Explanation, kind base.Kind) {
	for i := range x.Steps {
		s := &x.Steps[i]
		x.BytesRead += s.BytesRead
		x.OpeningReads += s.OpeningReads
		x.OpeningBytes += s.OpeningBytes
		if s.IndexRead {
			x.DiskReads++
		}
		if s.BlockFromDisk {
			x.DiskReads++
		}
		switch {
		case s.Run != "table":
		case s.Filter == "absent":
			x.ReadsSaved++
		case !s.Found:
			x.ReadsWasted++
		}
		if s.Found {
			x.Found = kind == base.KindSet
			x.Deleted = !x.Found
		}
	}
}
