//! `%{ assert … }%`: what is to hold of a connection, by the fields of `TCP_INFO`.

use core::fmt;

/// Something that is to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// Where it stands, from 1.
    pub line: u32,
    /// Its text, for reports.
    pub text: String,
    /// What is to be true.
    pub condition: Expression,
}

/// An expression over whole numbers; comparisons are 1 or 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number.
    Number(i64),
    /// A field, such as `tcpi_snd_cwnd`.
    Field(String),
    /// `not x`
    Not(Box<Expression>),
    /// Two of them joined.
    Binary(Operator, Box<Expression>, Box<Expression>),
}

/// What joins two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are what they are called")]
pub enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Intersect,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The stack has no field of this name.
    Field(String),
    /// Division by zero, or a number out of range.
    Arithmetic,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Field(name) => write!(f, "this stack does not report {name}"),
            Unknown::Arithmetic => f.write_str("a number is out of range"),
        }
    }
}

impl Expression {
    /// Its value, given the values of fields.
    ///
    /// # Errors
    /// It has none.
    pub fn value(&self, field: &impl Fn(&str) -> Option<i64>) -> Result<i64, Unknown> {
        match self {
            Expression::Number(number) => Ok(*number),
            Expression::Field(name) => field(name).ok_or_else(|| Unknown::Field(name.clone())),
            Expression::Not(inner) => Ok(i64::from(inner.value(field)? == 0)),
            Expression::Binary(operator, left, right) => {
                operator.apply(left.value(field)?, right.value(field)?)
            }
        }
    }

    /// The fields that it names.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Expression::Number(_) => Vec::new(),
            Expression::Field(name) => vec![name],
            Expression::Not(inner) => inner.fields(),
            Expression::Binary(_, left, right) => {
                let mut fields = left.fields();
                fields.extend(right.fields());
                fields
            }
        }
    }
}

impl Operator {
    fn apply(self, a: i64, b: i64) -> Result<i64, Unknown> {
        let truth = |holds: bool| Some(i64::from(holds));
        match self {
            Operator::Or => truth(a != 0 || b != 0),
            Operator::And => truth(a != 0 && b != 0),
            Operator::Equal => truth(a == b),
            Operator::Unequal => truth(a != b),
            Operator::Less => truth(a < b),
            Operator::LessOrEqual => truth(a <= b),
            Operator::Greater => truth(a > b),
            Operator::GreaterOrEqual => truth(a >= b),
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::Divide => a.checked_div(b),
            Operator::Intersect => Some(a & b),
        }
        .ok_or(Unknown::Arithmetic)
    }
}
