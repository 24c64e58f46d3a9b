package repair

import (
	"slices"

	"github.com/sievedb/sievedb/report"
)

// findLosses sets what the report says about losses.
func (r *Repairer) findLosses(p *plan) {
	rep := r.report
	gaps := slices.Clone(p.gaps)
	used := append(slices.Clip(r.tables), p.lone...)
	for _, t := range used {
		if t.dead || t.line.Fate == unused && t.entries > 0 {
			continue
		}
		rep.ValuesLost += t.lost.count
		gaps = append(gaps, t.lost.ranges...)
		if len(t.gaps) == 0 {
			continue
		}
		if t.declared > t.entries {
			rep.EntriesLost += t.declared - t.entries
		} else {
			rep.BytesLost += t.line.BytesLost
		}
		if !p.named[t.Num] { // those of the others are in p.gaps
			rep.Damaged = true
		}
	}
	for _, line := range p.lines {
		if line.Fate == missing {
			rep.Damaged = true
			rep.BytesLost += line.Bytes
		}
	}
	for _, o := range r.missingOps {
		covered := uint64(0)
		for _, t := range used {
			if !t.dead && t.line.Fate != unused && !p.named[t.Num] && t.maxSeq >= o.first {
				covered = max(covered, min(t.maxSeq, o.last)-o.first+1)
			}
		}
		rep.EntriesLost += o.last - o.first + 1 - covered
	}
	for _, k := range gaps {
		rep.Ranges = append(rep.Ranges, report.RepairedRange{First: k.first, Last: k.last})
	}
}
