package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"exactly"
	"exactly/internal/engine"
)

// metrics are exactly_<noun>_<unit>[_total]; label values are bounded by the
// number of tasks, sinks and codes.
type metrics struct {
	records, bytes, epochs, attempts, taken *prometheus.CounterVec
	letters, tombstones                     *prometheus.CounterVec
	applied, committed, failures            *prometheus.CounterVec
	epochSeconds, applySeconds              *prometheus.HistogramVec
	lagBytes, lagSeconds, breaker, tasks    *prometheus.GaugeVec
	staged, stagedSeconds                   *prometheus.GaugeVec
	gaps                                    prometheus.Counter
	kafka                                   prometheus.Gauge
}

func counter(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "exactly_" + name, Help: help}, labels)
	reg.MustRegister(c)
	return c
}

func gauge(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "exactly_" + name, Help: help}, labels)
	reg.MustRegister(g)
	return g
}

func histogram(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "exactly_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
	}, labels)
	reg.MustRegister(h)
	return h
}

func newMetrics(pipeline string) (*prometheus.Registry, *metrics) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r := prometheus.WrapRegistererWith(prometheus.Labels{"pipeline": pipeline}, reg)
	m := &metrics{
		records:       counter(r, "source_records_total", "Source records of decided epochs.", "task"),
		bytes:         counter(r, "source_bytes_total", "Bytes handled in decided epochs.", "task"),
		epochs:        counter(r, "epochs_decided_total", "Epochs decided.", "task"),
		attempts:      counter(r, "attempts_over_total", "Attempts of a task that ended by an error.", "task"),
		taken:         counter(r, "takeovers_total", "Takeovers of a task.", "task"),
		letters:       counter(r, "dead_letters_total", "Records that became dead letters, by what refused them.", "sink", "code"),
		tombstones:    counter(r, "tombstones_dropped_total", "Tombstones that a sink could not use.", "sink"),
		applied:       counter(r, "sink_records_applied_total", "Decided records applied by outbox sinks.", "sink"),
		committed:     counter(r, "sink_commits_total", "Staged work that was committed after its decision.", "sink"),
		failures:      counter(r, "sink_failures_total", "Calls to a sink that failed and are repeated.", "sink"),
		epochSeconds:  histogram(r, "epoch_duration_seconds", "From the first record of an epoch to its decision.", "task"),
		applySeconds:  histogram(r, "sink_apply_duration_seconds", "Of one call to an outbox sink.", "sink"),
		lagBytes:      gauge(r, "sink_lag_bytes", "Decided bytes that the sink has not applied.", "sink", "task"),
		lagSeconds:    gauge(r, "sink_lag_seconds", "Age of the oldest decided record that the sink has not applied.", "sink", "task"),
		staged:        gauge(r, "sink_prepared", "Prepared work of the pipeline in the sink's system, whoever prepared it; missing while the system does not answer.", "sink"),
		stagedSeconds: gauge(r, "sink_oldest_prepared_seconds", "Age of the oldest of it, 0 for none.", "sink"),
		breaker:       gauge(r, "sink_breaker_open", "1 while the sink's circuit breaker is open.", "sink", "task"),
		tasks:         gauge(r, "task_running", "1 while the task runs on this worker.", "task"),
		gaps:          prometheus.NewCounter(prometheus.CounterOpts{Name: "exactly_source_gaps_total", Help: "Gaps in source offsets without an explanation."}),
	}
	m.kafka = prometheus.NewGauge(prometheus.GaugeOpts{Name: "exactly_kafka_up", Help: "1 while the brokers answer."})
	m.kafka.Set(1)
	r.MustRegister(m.gaps, m.kafka)
	return reg, m
}

func (m *metrics) see(e exactly.Event) {
	task := strconv.Itoa(int(e.Task))
	switch e.Kind {
	case engine.EpochDecided:
		m.epochs.WithLabelValues(task).Inc()
		m.records.WithLabelValues(task).Add(float64(e.N))
		m.bytes.WithLabelValues(task).Add(float64(e.Bytes))
		m.epochSeconds.WithLabelValues(task).Observe(e.Duration.Seconds())
	case engine.TaskTakenOver:
		m.taken.WithLabelValues(task).Inc()
		m.tasks.WithLabelValues(task).Set(1)
	case engine.AttemptOver:
		m.attempts.WithLabelValues(task).Inc()
		m.tasks.WithLabelValues(task).Set(0)
	case engine.TaskRevoked:
		m.tasks.DeleteLabelValues(task)
	case engine.DeadLetter:
		m.letters.WithLabelValues(e.Sink, e.Detail).Add(float64(e.N))
	case engine.TombstoneDrop:
		m.tombstones.WithLabelValues(e.Sink).Add(float64(e.N))
	case engine.UnexplainedGap:
		m.gaps.Inc()
	case engine.KafkaAway:
		m.kafka.Set(0)
	case engine.KafkaBack:
		m.kafka.Set(1)
	default:
		m.seeSink(e, task)
	}
}

func (m *metrics) seeSink(e exactly.Event, task string) {
	switch e.Kind {
	case engine.SinkApplied:
		m.applied.WithLabelValues(e.Sink).Add(float64(e.N))
		m.applySeconds.WithLabelValues(e.Sink).Observe(e.Duration.Seconds())
	case engine.SinkCommitted:
		m.committed.WithLabelValues(e.Sink).Add(float64(e.N))
	case engine.SinkFailed:
		m.failures.WithLabelValues(e.Sink).Inc()
	case engine.BreakerOpened:
		m.breaker.WithLabelValues(e.Sink, task).Set(1)
	case engine.BreakerClosed:
		m.breaker.WithLabelValues(e.Sink, task).Set(0)
	case engine.SinkStaged:
		if e.Err != nil { // an old value would say that all is well
			m.staged.DeleteLabelValues(e.Sink)
			m.stagedSeconds.DeleteLabelValues(e.Sink)
			return
		}
		m.staged.WithLabelValues(e.Sink).Set(float64(e.N))
		m.stagedSeconds.WithLabelValues(e.Sink).Set(e.Duration.Seconds())
	case engine.SinkLag:
		m.lagBytes.WithLabelValues(e.Sink, task).Set(float64(e.Bytes))
		m.lagSeconds.WithLabelValues(e.Sink, task).Set(e.Duration.Seconds())
	}
}
