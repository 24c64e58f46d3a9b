// Package report has the reports that a store makes about itself: its counts (Metrics), what a lookup
// did (Explanation), how well filters work (FilterReport), what Open, Check and Repair found, and what
// an EventListener gets. Package db returns them, and has eight of the names.
//
// The types have fields to read and a String for people; those of filters also have a JSON form.
// Values belong to the caller. Keys appear only in an Explanation.
package report
