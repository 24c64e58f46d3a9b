package filterreport

import "github.com/sievedb/sievedb/report"

// Public returns the report in its public form.
func (r *Report) Public() *report.FilterReport {
	public := &report.FilterReport{Tables: []report.TableFilterReport{}, Levels: []report.LevelFilterReport{}} // lists in JSON too
	for i := range r.Tables {
		public.Tables = append(public.Tables, tableFilterReport(&r.Tables[i]))
	}
	for i := range r.Levels {
		public.Levels = append(public.Levels, levelFilterReport(&r.Levels[i]))
	}
	return public
}

func tableFilterReport(t *Table) report.TableFilterReport {
	r := report.TableFilterReport{
		Level: t.Level, FileNum: t.FileNum, Name: t.Name, Bytes: t.Bytes, Policy: t.Policy, Layout: t.Layout,
		FilterFigures: report.FilterFigures(t.Figures), BlockBytes: t.BlockBytes,
		Probes: report.FilterProbes(t.Probes), Lookups: report.FilterLookups(t.Lookups),
		Verdict: report.FilterVerdict(t.Verdict), Detail: t.Detail, Advice: t.Advice,
	}
	for _, f := range t.Ranges {
		r.Ranges = append(r.Ranges, report.RangeFilterReport{
			Policy: f.Policy, Bytes: f.Bytes, BitsPerKey: f.BitsPerKey, State: f.State,
			Verdict: report.FilterVerdict(f.Verdict), Detail: f.Detail, Advice: f.Advice,
		})
	}
	return r
}

func levelFilterReport(l *Level) report.LevelFilterReport {
	r := report.LevelFilterReport{
		Level: l.Level, Tables: l.Tables, FilterFigures: report.FilterFigures(l.Figures),
		Probes: report.FilterProbes(l.Probes), Lookups: report.FilterLookups(l.Lookups),
		RangeBytes: l.RangeBytes, RangeBitsPerKey: l.RangeBitsPerKey, Ranges: report.FilterLookups(l.Ranges),
		Verdicts: map[report.FilterVerdict]int{},
	}
	for verdict, n := range l.Verdicts {
		r.Verdicts[report.FilterVerdict(verdict)] = n
	}
	return r
}
