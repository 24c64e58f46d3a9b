package replay

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
)

// checkReached compares the recovered operations with those that CLOSED records: a log that is
// missing, empty or truncated may have contained operations whose loss nothing else shows.
func (r *Replayer) checkReached() error {
	if r.lastSeq < r.acknowledged {
		r.report.Losses = append(r.report.Losses, fmt.Sprintf(
			"operations %d to %d are lost: the log failed, and Close could not write them to tables", r.lastSeq+1, r.acknowledged))
		r.dir.Logger.Error("operations are lost: the log failed, and Close could not write them to tables",
			"first", r.lastSeq+1, "last", r.acknowledged)
	}
	if r.mark == nil || r.ended || r.lastSeq >= r.mark.LastSeq {
		return nil
	}
	err := r.missingOperations(r.mark.LastSeq, "the database was closed with them")
	if r.opts.Salvage == SalvageNothing {
		return base.InFile(err, filepath.Join(r.dir.Path, base.FileName(base.FileLog, r.mark.Log.Num)), -1)
	}
	r.salvaged = true
	r.report.Losses = append(r.report.Losses, err.Error())
	r.dir.Logger.Error("salvaging the remaining operations of the logs", "err", err)
	return nil
}

// checkGap compares the recovered operations with the last one before a log of SieveDB, according
// to its preamble. SalvagePrefix ends before the gap, SalvageAll continues after it.
func (r *Replayer) checkGap(last uint64, report *logFindings) error {
	if r.lastSeq >= last {
		return nil
	}
	err := r.missingOperations(last, "they were durable before this log began")
	report.GapBefore = last - r.lastSeq
	if r.opts.Salvage == SalvageAll {
		r.salvaged = true
		r.dir.Logger.Error("salvaging a log after missing operations", "log", report.Name, "err", err)
		return nil
	}
	return r.pass(err, report)
}

// missingOperations returns the corruption of logs that lack the operations from the last one
// recovered up to last. proof says how that is known.
func (r *Replayer) missingOperations(last uint64, proof string) error {
	return base.Corruptf("log", -1, "operations %d to %d are missing: %s, but the needed logs that exist (%s) do not contain them: "+
		"a log was removed, emptied or truncated; restore it from a copy, or set Options.Salvage to open the database without them",
		r.lastSeq+1, last, proof, r.logNames())
}

// logNames lists the logs that are needed and exist.
func (r *Replayer) logNames() string {
	const limit = 8
	var names []string
	for i, f := range r.logs {
		if i == limit {
			names = append(names, fmt.Sprintf("and %d more", len(r.logs)-limit))
			break
		}
		names = append(names, base.FileName(base.FileLog, f.Num))
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}
