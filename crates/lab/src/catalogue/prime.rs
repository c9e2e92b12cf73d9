//! Rates that are in step with nothing.
//!
//! The kernel looks at each tick what its cores do (100, 250 or 1,000 times a second), and books the
//! whole tick on that. Requests at a round rate are at the same few moments of their course at every
//! tick, so that one category has all of their time, and another none. At a prime number of them a
//! second the ticks come to see every moment of a request alike.

/// The greatest prime number that is not above a rate.
pub const fn prime(rate: u32) -> f64 {
    let mut found = rate;
    while found > 2 && !is_prime(found) {
        found -= 1;
    }
    found as f64
}

const fn is_prime(number: u32) -> bool {
    let mut divisor = 2;
    while divisor * divisor <= number {
        if number.is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    number > 1
}

#[cfg(test)]
mod tests {
    use super::prime;

    #[test]
    fn rates_are_primes_near_those_that_are_meant() {
        let meant = [2, 300, 1_000, 5_000, 10_000, 20_000];
        let found = [2.0, 293.0, 997.0, 4_999.0, 9_973.0, 19_997.0];
        assert_eq!(meant.map(prime), found);
    }
}
