// The examples to click: the first of each tab is filled in and answered when the tab is first shown.

export const READ = {
  'town letter': [`\
The Old Mill Bridge will close to all traffic at six in the morning on Monday, 3 March, and reopen in November. Divers found cracks in four of its eleven stone piers last October. Something had to be done about it.

Buses 4 and 17 will run over the ring road and stop at Station Square every ten minutes. Cyclists can use the wooden footbridge at Fisher Lane, two hundred metres upstream. Other arrangements may be possible in some cases.

The repair costs 2.4 million euros, of which the state of Styria pays sixty percent. We are aware that this is not easy for everyone. Shops on Mill Street can apply for up to 5,000 euros in compensation until 30 April. We will do what we can, and things will get better afterwards.

Civil engineer Maria Huber answers questions about the building site in the town library every Thursday at five. Please feel free to get in touch with us at any time.`],
  'job offer': [`\
We are a dynamic company with a passion for excellence. Our people make the difference.

You will work on the brake control of freight trains, in C++ and Rust, together with four engineers in Linz. You bring the right attitude and think outside the box. You have written software for embedded ARM processors for at least three years, and you read circuit diagrams. Experience in a similar role is a plus.

We offer many benefits. The salary is 68,000 euros a year, with thirty days of holiday and a railway pass for all of Austria.

Does this sound like you? Send your application to jobs@example.org by 15 June.`],
  'horoscope': [`\
This week brings change, and change brings opportunity. Someone close to you may surprise you. Venus enters Taurus on Tuesday evening and stands eleven degrees above Jupiter at sunset.

Trust your feelings, but do not rush anything. The Lyrid meteors peak on the night of 22 April, when up to eighteen an hour can be seen from dark places in the northern hemisphere. Good things come to those who wait.

On Friday the crescent moon passes two degrees south of the Pleiades, best seen with binoculars. It will be what you make of it.`],
};

export const COMPARE = {
  'one word differs': ['The meeting was moved to Tuesday.', 'The meeting was moved to Thursday.'],
  'one is vaguer': ['The bank raised its interest rate again this year.', 'They have put that up again.'],
  'the same': ['A man is playing a guitar.', 'A man plays the guitar.'],
  'unrelated': ['The cat sleeps on the sofa.', 'Shares fell sharply on Monday.'],
};

export const MAP = {
  'four topics': [`\
A young man plays the guitar on a street corner.
On the corner of the street, a guitarist is performing.
The violinist tuned her instrument before the concert.
Somebody is doing something musical at some place or other.
Heavy rain is expected along the coast late tonight.
Late tonight the coastal region will see much rainfall.
Snow closed the mountain pass for three days in January.
There may be a bit of that weather later on.
The bank raised its interest rate again this year.
This year, borrowing money at the bank became dearer again.
Shares of the carmaker fell by four percent on Monday.
They have put that up again, as they always do.
Simmer the tomatoes with garlic until the sauce is thick.
Cook tomatoes and garlic gently for a thick sauce.
Knead the dough for ten minutes and let it rise overnight.
Leave it all in there for as long as it takes.`],
  'questions to a helpdesk': [`\
How do I reset my password?
I forgot my login, what now?
My account is locked after three wrong passwords.
Where can I change my e-mail address?
When will my parcel arrive?
The tracking number you sent does not work.
Can you deliver to a parcel locker in Graz?
My order has not come yet.
How do I send back shoes that do not fit?
I want my money back.
Is the return label free of charge?
The jacket came with a broken zip.
Do you have this lamp in green?
What are the measurements of the oak table?
Is the bread knife dishwasher safe?
It does not work.
Can you help me with something?
I have a question about that.`],
};

const FAQ = `\
To reset your password, open Settings, choose Security, and follow the link that we send you.
We ship to all of Europe within five working days; the tracking number comes by e-mail.
You may send back any item within thirty days. The label for it is free.
Our office is in Lyon, next to the station, and is open from nine to five.
Invoices are in your account below Orders, as PDF files.
You can pay by card, by bank transfer, or on delivery.
To close your account, write to us from the address that it is registered with.`;

export const SEARCH = {
  'a question with an answer': ['I forgot my login, what now?', FAQ],
  'a question without': ['Who won the cup in 1998?', FAQ],
};

export const CLASSIFY = {
  'sport, money, weather': [`\
The goalkeeper was injured.
Fog will clear by noon.
The club sold its best player for forty million.`, `\
sport: The match ended in a draw after extra time.
sport: She won the final set in a tie-break.
sport: Their striker scored twice in the first half.
sport: The coach praised his goalkeeper.
money: Shares of the carmaker fell on Monday.
money: The bank raised its interest rate again.
money: Profits rose by a tenth this quarter.
money: Investors sold government bonds.
weather: Heavy rain is expected along the coast.
weather: Snow closed the mountain pass for days.
weather: It will be sunny and warm on Sunday.
weather: A storm is moving in from the west.`],
  'what a customer wants': [`\
I forgot my login.
Where is my package?
It came broken and too late.`, `\
password: How do I reset my password?
password: I cannot log in any more.
password: My account is locked.
password: The code for signing in does not come.
delivery: When will my parcel arrive?
delivery: The tracking number does not work.
delivery: My order has not come yet.
delivery: Do you deliver on Saturdays?
return: I want to send these shoes back.
return: Is the return label free?
return: When do I get my money back?
return: The jacket is too small, can I exchange it?`],
};
