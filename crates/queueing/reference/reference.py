#!/usr/bin/env python3
"""Reference values for the queueing crate, computed independently with SciPy and mpmath.

Nothing here follows the crate's algorithms: moments are integrated numerically, queues are solved
as Markov chains or by transforms, Kolmogorov-Smirnov comes from SciPy. Run it to write
`reference.json` anew:

    python3 reference.py > reference.json
"""
import json
from mpmath import mp, mpf, quad, exp, log, sqrt, pi, inf, factorial
import numpy as np
from scipy import integrate, linalg, stats

mp.dps = 30
cases = []


def case(what, value, **inputs):
    cases.append({"what": what, "inputs": inputs, "value": float(value)})


# Moments, by integrating n x^(n-1) P(X > x).
def moment(survival, order, pieces):
    return sum(quad(lambda x: order * x ** (order - 1) * survival(x), [a, b])
               for a, b in zip(pieces, pieces[1:]))


for rate in (0.7, 12.0):
    for order in (1, 2, 3):
        case("exponential_moment", moment(lambda x: exp(-rate * x), order, [0, 1 / mpf(rate), 10 / mpf(rate), inf]),
             rate=rate, order=order)
for stages, rate in ((3, 2.0), (7, 40.0)):
    survival = lambda x: sum(exp(-rate * x) * (rate * x) ** i / factorial(i) for i in range(stages))
    for order in (1, 2, 3):
        case("erlang_moment", moment(survival, order, [0, mpf(stages) / rate, 5 * mpf(stages) / rate, inf]),
             stages=stages, rate=rate, order=order)
for mu, sigma in ((-6.0, 0.8), (0.5, 1.318)):
    for order in (1, 2, 3):
        # E[X^n] over the normal density of the logarithm.
        f = lambda z: exp(order * (mu + sigma * z)) * exp(-z * z / 2) / sqrt(2 * pi)
        c = order * sigma
        case("log_normal_moment", quad(f, [-inf, c - 5, c, c + 5, inf]), mu=mu, sigma=sigma, order=order)
for low, high, alpha in ((1.0, 1000.0, 1.1), (0.001, 10.0, 2.0), (133000.0, 1e9, 1.1), (2.0, 50.0, 3.0)):
    mass = 1 - (mpf(low) / high) ** mpf(alpha)
    for order in (1, 2, 3):
        # x = e^t turns the integrand of the moment into an exponential.
        f = lambda t: alpha * mpf(low) ** mpf(alpha) / mass * exp((order - alpha) * t)
        case("bounded_pareto_moment", quad(f, [log(mpf(low)), log(mpf(high))]), low=low, high=high, alpha=alpha, order=order)
for rates in ((2.0, 5.0, 5.0), (1.0, 10.0)):
    # Phase type: moments n! a (-T)^-n 1.
    t = np.diag([-r for r in rates]) + np.diag(rates[:-1], 1)
    inverse = np.linalg.inv(-t)
    for order in (1, 2, 3):
        value = float(factorial(order)) * np.linalg.matrix_power(inverse, order)[0].sum()
        case("hypoexponential_moment", value, rates=list(rates), order=order)
    for x in (0.3, 1.7):
        case("hypoexponential_cdf", 1 - linalg.expm(t * x)[0].sum(), rates=list(rates), x=x)

# Probabilities.
for mu, sigma, x in ((-6.0, 0.8, 0.004), (0.0, 1.0, 3.0)):
    case("log_normal_cdf", stats.lognorm(sigma, scale=np.exp(mu)).cdf(x), mu=mu, sigma=sigma, x=x)
for stages, rate, x in ((3, 2.0, 1.0), (7, 40.0, 0.3)):
    case("erlang_cdf", stats.gamma(stages, scale=1 / rate).cdf(x), stages=stages, rate=rate, x=x)


# Queues as Markov chains: the stationary vector of a generator.
def stationary(generator):
    n = len(generator)
    a = generator.T.copy()
    a[n - 1] = 1
    b = np.zeros(n)
    b[n - 1] = 1
    return linalg.solve(a, b)


def birth_death(arrival, service, servers, room):
    q = np.zeros((room + 1, room + 1))
    for n in range(room):
        q[n, n + 1] = arrival
        q[n + 1, n] = service * min(n + 1, servers)
    np.fill_diagonal(q, -q.sum(axis=1))
    return stationary(q)


for arrival, service, room in ((0.8, 1.0, 5), (3.0, 2.0, 10), (1.0, 1.0, 7), (30.0, 10.0, 4)):
    p = birth_death(arrival, service, 1, room)
    present = p @ np.arange(room + 1)
    case("mm1k_blocking", p[room], arrival=arrival, service=service, room=room)
    case("mm1k_time", present / (arrival * (1 - p[room])), arrival=arrival, service=service, room=room)
for arrival, service, servers in ((1.6, 1.0, 2), (7.0, 2.0, 4), (15.0, 1.0, 16)):
    p = birth_death(arrival, service, servers, 400)
    case("mmk_time", (p @ np.arange(401)) / arrival, arrival=arrival, service=service, servers=servers)


# M/E_r/1/K as a chain of phases.
def merlang1k(arrival, stages, rate, room):
    states = 1 + room * stages  # empty, or n present and a phase
    index = lambda n, phase: 0 if n == 0 else 1 + (n - 1) * stages + phase
    q = np.zeros((states, states))
    q[0, index(1, 0)] = arrival
    for n in range(1, room + 1):
        for phase in range(stages):
            here = index(n, phase)
            if n < room:
                q[here, index(n + 1, phase)] = arrival
            target = index(n, phase + 1) if phase + 1 < stages else index(n - 1, 0)
            q[here, target] += rate
    np.fill_diagonal(q, -q.sum(axis=1))
    p = stationary(q)
    present = sum(p[index(n, phase)] * n for n in range(1, room + 1) for phase in range(stages))
    blocking = sum(p[index(room, phase)] for phase in range(stages))
    return blocking, present / (arrival * (1 - blocking))


for arrival, stages, rate, room in ((0.9, 3, 3.0, 6), (2.0, 2, 3.0, 10), (0.5, 4, 4.0, 3)):
    blocking, time = merlang1k(arrival, stages, rate, room)
    case("mg1k_erlang_blocking", blocking, arrival=arrival, stages=stages, rate=rate, room=room)
    case("mg1k_erlang_time", time, arrival=arrival, stages=stages, rate=rate, room=room)


# M/G/1/K with a lognormal service: arrivals during a service by quadrature, the chain by algebra.
def mg1k(arrival, density_points, room):
    steps = [density_points(lambda s: stats.poisson(arrival * s).pmf(n)) for n in range(room)]
    a = [float(s) for s in steps]
    p = np.zeros((room, room))
    for i in range(room):
        start = max(i - 1, 0)
        for n in range(room):
            if start + n < room - 1:
                p[i, start + n] += a[n]
        p[i, room - 1] = 1 - p[i, :room - 1].sum()
    pi_ = stationary(p - np.eye(room))
    mean = float(density_points(lambda s: s))
    load = arrival * mean
    blocking = 1 - 1 / (pi_[0] + load)
    return blocking


for arrival, mu, sigma, room in ((0.8, 0.0, 0.7, 5), (1.5, -0.4, 1.0, 8)):
    density = lambda z: np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    over = lambda g: sum(integrate.quad(lambda z: g(np.exp(mu + sigma * z)) * density(z), a, b, epsabs=1e-13)[0]
                         for a, b in ((-12, -4), (-4, 0), (0, 4), (4, 12)))
    case("mg1k_log_normal_blocking", mg1k(arrival, over, room), arrival=arrival, mu=mu, sigma=sigma, room=room)

# M/G/1 by differentiating the Pollaczek-Khinchin transform of the wait numerically.
for arrival, stages, rate in ((0.8, 2, 2.0), (5.0, 4, 40.0)):
    transform = lambda s: (mpf(rate) / (rate + s)) ** stages
    rho = arrival * mpf(stages) / rate
    wait = lambda s: (1 - rho) * s / (s - arrival + arrival * transform(s))
    h = mpf("1e-6")
    first = -(wait(h) - wait(-h)) / (2 * h)
    second = (wait(h) - 2 + wait(-h)) / h ** 2
    case("mg1_wait", first, arrival=arrival, stages=stages, rate=rate)
    case("mg1_wait_variance", second - first ** 2, arrival=arrival, stages=stages, rate=rate)

# Kolmogorov-Smirnov.
rng = np.random.default_rng(4)
for n, m, shift in ((5, 7, 0.0), (12, 12, 0.8), (40, 25, 0.3)):
    a = [round(float(x), 6) for x in rng.normal(size=n)]
    b = [round(float(x), 6) for x in rng.normal(shift, size=m)]
    exact = stats.ks_2samp(a, b, method="exact")
    case("ks_distance", exact.statistic, a=a, b=b)
    case("ks_exact", exact.pvalue, a=a, b=b)
for x in (0.4, 0.9, 1.36, 2.1):
    case("kolmogorov_survival", stats.kstwobign.sf(x), x=x)

# Least squares with its interval.
rates = [100.0, 200.0, 300.0, 400.0, 500.0]
busy = [0.21, 0.38, 0.62, 0.79, 1.02]
fit = stats.linregress(rates, busy)
t = stats.t.ppf(0.975, len(rates) - 2)
case("regression_slope", fit.slope, rates=rates, busy=busy)
case("regression_slope_low", fit.slope - t * fit.stderr, rates=rates, busy=busy)
case("regression_start", fit.intercept, rates=rates, busy=busy)
case("regression_start_high", fit.intercept + t * fit.intercept_stderr, rates=rates, busy=busy)
case("regression_explained", fit.rvalue ** 2, rates=rates, busy=busy)

print(json.dumps(cases, indent=1))
