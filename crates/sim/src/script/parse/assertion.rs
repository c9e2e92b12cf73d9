//! `%{ assert tcpi_snd_cwnd == 10, 'why' }%`: one assertion a line.

use super::cursor::{Cursor, Parsed};
use crate::script::assertion::{Assertion, Expression, Operator};
use crate::script::call::constant;

/// How deep expressions may nest.
const MAX_DEPTH: usize = 32;
/// The most assertions in one place.
const MAX_ASSERTIONS: usize = 64;

/// What joins expressions, by how loosely.
const LEVELS: [&[(&str, Operator)]; 5] = [
    &[("or", Operator::Or)],
    &[("and", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ],
    &[
        ("+", Operator::Add),
        ("-", Operator::Subtract),
        ("&", Operator::Intersect),
    ],
    &[
        ("*", Operator::Multiply),
        ("//", Operator::Divide),
        ("/", Operator::Divide),
    ],
];

pub(super) fn assertions(cursor: &mut Cursor<'_>) -> Parsed<Vec<Assertion>> {
    cursor.expect("%{")?;
    let mut assertions = Vec::new();
    while !cursor.eat("}%")? {
        if assertions.len() == MAX_ASSERTIONS {
            return cursor.error(format!("more than {MAX_ASSERTIONS} assertions"));
        }
        let line = cursor.line();
        if !cursor.eat_word("assert")? {
            return cursor.error(format!("expected assert, found {}", cursor.next_words()));
        }
        cursor.skip_blanks();
        let before = cursor.rest();
        let condition = expression(cursor, 0, 0)?;
        let length = before.len() - cursor.rest().len();
        assertions.push(Assertion {
            line,
            text: before[..length].to_owned(),
            condition,
        });
        cursor.skip_blanks();
        if cursor.rest().starts_with(',') {
            // A message for people; the text of the assertion is one already.
            let rest = cursor.rest();
            let end = rest.find(['\n', ';', '}']).unwrap_or(rest.len());
            cursor.advance(end);
        }
        while cursor.eat(";")? {}
    }
    Ok(assertions)
}

fn expression(cursor: &mut Cursor<'_>, level: usize, depth: usize) -> Parsed<Expression> {
    if depth > MAX_DEPTH {
        return cursor.error("nested too deeply");
    }
    let Some(operators) = LEVELS.get(level) else {
        return operand(cursor, depth);
    };
    let mut left = expression(cursor, level + 1, depth)?;
    let mut joined = 0;
    'more: loop {
        cursor.skip_blanks();
        for (sign, operator) in *operators {
            if cursor.rest().starts_with(sign) && !cursor.rest().starts_with("}%") {
                joined += 1;
                if joined > MAX_DEPTH {
                    return cursor.error("an expression is too long");
                }
                cursor.advance(sign.len());
                let right = expression(cursor, level + 1, depth)?;
                left = Expression::Binary(*operator, Box::new(left), Box::new(right));
                continue 'more;
            }
        }
        return Ok(left);
    }
}

fn operand(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<Expression> {
    if cursor.eat("(")? {
        let inner = expression(cursor, 0, depth + 1)?;
        cursor.expect(")")?;
        return Ok(inner);
    }
    if cursor.eat_word("not")? {
        let inner = expression(cursor, 2, depth + 1)?;
        return Ok(Expression::Not(Box::new(inner)));
    }
    if cursor.at_digit()? {
        let number = cursor.number("a number", i64::MAX as u64)?;
        return Ok(Expression::Number(number as i64));
    }
    let at = cursor.here();
    let name = cursor.word()?;
    if let Some(number) = constant::by_name(name) {
        return Ok(Expression::Number(number.into()));
    }
    if !name.starts_with("tcpi_") {
        return cursor.error_at(at, format!("{name:?}: expected a number or a tcpi_ field"));
    }
    Ok(Expression::Field(name.to_owned()))
}
